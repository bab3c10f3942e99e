"""Request rates: requests beyond a namespace's rate become dead letters, except during a catch-up."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tables import Position
from tests.app.engine.ingest.test_quotas import DUE, Limited
from tests.punctual.contract.records import NOW


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    """`orders` may write ten records in ten seconds."""
    assert NOW % 10_000 == 0
    return Limited(tmp_path / "limited.db", quotas="orders=rate:1/s")


def test_no_more_records_are_taken_in_a_span_than_the_rate_says(limited: Limited) -> None:
    assert limited.outcomes_of(*(limited.asked() for _ in range(12))) == ["accepted"] * 10 + ["quota"] * 2
    letter = dict(limited.sends[-1].headers)
    assert b"has sent the maximum of 10 messages and commands in 10 s" in (letter["delay-error"] or b"")

    limited.now_ms += 9_999
    assert limited.outcomes_of(limited.asked()) == ["quota"]
    limited.now_ms += 1
    assert limited.outcomes_of(limited.asked()) == ["accepted"]


def test_commands_count_as_requests_do(limited: Limited) -> None:
    commands = [limited.orders.record(NOW, delay_op="cancel", delay_id="x") for _ in range(10)]

    assert limited.outcomes_of(*commands, limited.asked()) == ["unknown"] * 10 + ["quota"]


def test_slowly_written_requests_may_be_read_at_any_rate(limited: Limited) -> None:
    records = [replace(limited.asked(), timestamp=NOW + 1_000 * number) for number in range(60)]
    limited.now_ms += 3_600_000

    assert limited.outcomes_of(*records) == ["accepted"] * 60


def test_a_producers_old_timestamps_make_no_room(limited: Limited) -> None:
    records = [replace(limited.asked(), timestamp=NOW - 10_000 * number) for number in range(12)]

    assert limited.outcomes_of(*records) == ["accepted"] * 10 + ["quota"] * 2


def test_no_timestamp_of_the_future_counts_for_more_than_a_minute(limited: Limited) -> None:
    records = [replace(limited.asked(), timestamp=NOW + 10**12 * (1 + number)) for number in range(12)]

    assert limited.outcomes_of(*records) == ["bad-timestamp"] * 10 + ["quota"] * 2


def test_a_record_counts_once_however_often_it_is_read(limited: Limited) -> None:
    from app.engine.steps.step import Step  # noqa: PLC0415 - just here

    records = [limited.asked() for _ in range(12)]
    for _ in range(3):
        found = limited.ingest.read(Step(NOW, NOW), records)
        assert [getattr(asked, "reason", "") for _, asked in found] == [""] * 10 + ["quota"] * 2
    assert limited.outcomes_of(*records) == ["accepted"] * 10 + ["quota"] * 2


def test_what_other_workers_have_let_through_counts(limited: Limited) -> None:
    span = str(NOW // 10_000)
    told = {"orders": {span: 8, "1": 99}}
    limited.reports[7] = SimpleNamespace(progress=SimpleNamespace(namespaces={}, requests=told))

    assert limited.outcomes_of(*(limited.asked() for _ in range(3))) == ["accepted"] * 2 + ["quota"]


def test_the_latest_spans_are_reported_to_other_workers(limited: Limited) -> None:
    rates = limited.ingest._rates
    assert rates is not None
    for _ in range(3):
        limited.run(limited.asked(), limited.asked())
        limited.now_ms += 10_000

    span = NOW // 10_000
    assert rates.recent(0) == {"orders": {str(span + 1): 2, str(span + 2): 2}}
    assert rates.recent(1) == {}


def test_other_inputs_are_not_counted(limited: Limited) -> None:
    for _ in range(30):
        limited.ask(delay_to="orders", delay_at=str(DUE))
    assert len(limited.pending()) == 30


def test_spans_are_forgotten(limited: Limited) -> None:
    records = [replace(limited.asked(), timestamp=NOW + 10_000 * number) for number in range(1_100)]
    limited.now_ms += 10**9
    limited.run(*records)

    rates = limited.ingest._rates
    assert rates is not None
    assert len(rates._limits["orders"].taken) < 1_000


def test_refusals_are_forgotten_if_the_topic_is_created_again(limited: Limited) -> None:
    """Its records have other numbers than in the log."""
    limited.store.positions["orders-delays"] = Position(0, -1, 0, base=1_000_000)
    for _ in range(5):
        limited.read([limited.asked() for _ in range(100)])

    rates = limited.ingest._rates
    assert rates is not None
    assert len(rates._seen["orders-delays", 0].over) <= 100
