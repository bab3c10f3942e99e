"""A destination is waited for longer while the brokers are slow to take anything at all."""

import asyncio
import contextlib

import pytest

from app.engine.commit.transactional_journal import AdaptiveTimeout


class Waiting:
    """Patience, and a loop whose clock a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patience, self.now_s = AdaptiveTimeout(), 100.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now_s, raising=False)

    def own_topics_take(self, seconds: float, times: int) -> None:
        for _ in range(times):
            with self.patience.measured():
                self.now_s += seconds


async def test_patience_is_short_as_long_as_our_own_topics_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    assert waiting.patience.limit_s == 0.15
    waiting.own_topics_take(0.03, 100)

    assert waiting.patience.limit_s == 0.15


async def test_patience_grows_with_what_our_own_topics_take_and_shrinks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    waiting.own_topics_take(0.2, 50)
    assert waiting.patience.limit_s == pytest.approx(0.8, rel=0.05)
    waiting.own_topics_take(30, 50)
    assert waiting.patience.limit_s == 2.0
    waiting.own_topics_take(0.01, 100)

    assert waiting.patience.limit_s == 0.15


async def test_patience_grows_with_how_far_that_varies(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    for _ in range(30):
        waiting.own_topics_take(0.01, 4)
        waiting.own_topics_take(0.2, 1)

    assert waiting.patience.limit_s > 4 * 0.05 * 1.5


async def test_a_failed_attempt_does_not_change_the_measured_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch)
    with contextlib.suppress(OSError), waiting.patience.measured():
        waiting.now_s += 60
        raise OSError

    assert waiting.patience.limit_s == 0.15
