"""What was sent a moment ago may come; it is forgotten soon, and however many there are."""

import asyncio

import pytest

from app.gateway.desk import desk
from app.gateway.desk.desk import Recent
from tests.harness.simulated_time import in_simulated_time


@in_simulated_time
async def test_what_was_sent_a_moment_ago_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_SETTLE_S", 0.02)
    known = Recent()
    known.sent("x")
    assert known.may_come("x")
    assert not known.may_come("y")
    await asyncio.sleep(0.03)
    assert not known.may_come("x")


async def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_MOST", 2)
    known = Recent()
    for id_ in ("a", "b", "a", "c"):
        known.sent(id_)
    assert [known.may_come(id_) for id_ in ("a", "b", "c")] == [True, False, True]
