"""The last hour, minute by minute, as reports tell it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from app.serve.web.history import LastHour

if TYPE_CHECKING:
    from tests.app.serve.web.conftest import FakeState

MINUTE_MS = 60_000
Record = Callable[..., dict[str, Any]]


async def minutes(history: LastHour) -> list[dict[str, Any]]:
    answer = await history.show(None)  # type: ignore[arg-type] # it does not use the request
    assert isinstance(answer.body, bytes)
    found: list[dict[str, Any]] = msgspec.json.decode(answer.body)["minutes"]
    return found


def told(state: "FakeState", record: Record, at_ms: int, **positions: int) -> None:
    """Have partition 0 report at a time."""
    state.now = at_ms
    named = {f"delay-{name}": offset for name, offset in positions.items()}
    state.report(record(0, at=at_ms, positions=named, lateness={"5": 90, "20": 30}), appended_ms=at_ms)


async def test_a_minute_has_its_requests_and_deliveries_per_second(state: "FakeState", record: Record) -> None:
    history, begin = LastHour(state), state.now
    state.reader.caught_up.set()
    told(state, record, begin, requests=1_000, forwards=7)
    history.look()
    assert await minutes(history) == []
    told(state, record, begin + MINUTE_MS, requests=1_600, forwards=700, json=40)
    history.look()
    one = {"at_ms": begin + MINUTE_MS, "in": 10.0, "out": 2.0, "p50_ms": 5, "p99_ms": 20}
    assert await minutes(history) == [one]


async def test_the_history_is_empty_before_the_reports_are_read(state: "FakeState", record: Record) -> None:
    history = LastHour(state)
    told(state, record, state.now, requests=1)
    state.reader.caught_up.clear()
    history.look()
    told(state, record, state.now + MINUTE_MS, requests=2)
    history.look()
    assert await minutes(history) == []


async def test_an_hour_is_kept_and_no_rate_is_negative(state: "FakeState", record: Record) -> None:
    history, begin = LastHour(state), state.now
    state.reader.caught_up.set()
    for minute in range(100):
        told(state, record, begin + minute * MINUTE_MS, requests=10_000 - minute)
        history.look()
    found = await minutes(history)
    assert [one["at_ms"] for one in found] == [begin + minute * MINUTE_MS for minute in range(40, 100)]
    assert {one["in"] for one in found} == {0.0}
