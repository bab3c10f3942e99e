"""A message sent a moment ago may still appear; it is forgotten soon, and the number of such messages has a maximum."""

import asyncio

import pytest

from app.gateway import desk
from app.gateway.desk import Recent
from tests.harness.simulated_time import in_simulated_time


@in_simulated_time
async def test_a_message_sent_a_moment_ago_may_appear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_SETTLE_S", 0.02)
    known = Recent()
    known.sent("x")
    assert known.may_come("x")
    assert not known.may_come("y")
    await asyncio.sleep(0.03)
    assert not known.may_come("x")


async def test_the_number_of_remembered_messages_has_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_MOST", 2)
    known = Recent()
    for id_ in ("a", "b", "a", "c"):
        known.sent(id_)
    assert [known.may_come(id_) for id_ in ("a", "b", "c")] == [True, False, True]
