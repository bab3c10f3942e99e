"""Deliveries of series are held to the rate of their namespace: one request must not deliver without end."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.dev.testing import Delayed, Options
from tests.app.engine.ingest.test_quotas import Limited

START = datetime(2027, 1, 31, 12, tzinfo=UTC)
_MISFIRE = {"delay-misfire": "catch-up"}


@pytest.fixture
def delayed() -> Iterator[Delayed]:
    settings = {
        "DELAY_INPUTS": "team-delays=native",
        "DELAY_NAMESPACES": "team-delays=team",
        "DELAY_QUOTAS": "team=rate:2/s",
    }
    made = Delayed(Options(start=START, topics={"orders": 1}, settings=settings))
    yield made
    made.close()


def every(delayed: Delayed, id_: str, topic: str = "team-delays", **more: str) -> None:
    """Ask for a message each second."""
    said = {"delay-to": "orders", "delay-id": id_, "delay-every": "PT1S", **more}
    delayed.produce(said, id_, key=id_, topic=topic)


def spans(delayed: Delayed) -> Counter[int]:
    """Return how many were delivered in each span of ten seconds."""
    return Counter(int((record.at - START).total_seconds()) // 10 for record in delayed.delivered("orders"))


def test_series_deliver_at_most_their_rate_and_lose_no_occurrence_under_catch_up(delayed: Delayed) -> None:
    for number in range(5):
        every(delayed, f"s{number}", **_MISFIRE, **{"delay-count": "12"})
    delayed.advance(seconds=59)

    assert spans(delayed) == {0: 20, 1: 20, 2: 20}
    each = Counter(record.key for record in delayed.delivered("orders"))
    assert set(each.values()) == {12}
    assert not delayed.pending()


def test_a_series_from_the_past_is_held_to_the_rate_too(delayed: Delayed) -> None:
    every(delayed, "old", **_MISFIRE, **{"delay-at": "2027-01-31T11:50:00Z"})
    delayed.advance(seconds=29)

    assert set(spans(delayed).values()) == {20}


def test_series_without_a_namespace_and_plain_messages_are_not_held(delayed: Delayed) -> None:
    for number in range(5):
        every(delayed, f"s{number}", topic="delay-requests")
    delayed.advance(seconds=20)

    assert len(delayed.delivered("orders")) >= 95


def test_what_other_workers_deliver_counts(tmp_path: Path) -> None:
    limited = Limited(tmp_path / "limited.db", quotas="orders=rate:1/s")
    rates = limited.quotas.rates
    assert rates is not None
    now = limited.now_ms
    span = now // 10_000
    told = {"orders": {f"={span}": 8, str(span): 99}}
    limited.reports[7] = SimpleNamespace(progress=SimpleNamespace(namespaces={}, requests=told))

    assert rates.waits("orders/a", now) is None
    rates.deliver(0, "orders/a", now)
    rates.deliver(0, "orders/a", now)
    assert rates.waits("orders/a", now) == (span + 1) * 10_000
    assert rates.waits("orders/a", now + 10_000) is None
    assert rates.waits("billing/a", now) is None
    assert rates.recent(0) == {"orders": {f"={span}": 2}}
    limited.close()
