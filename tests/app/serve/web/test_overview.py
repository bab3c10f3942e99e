"""The sums of the reports of all partitions."""

from collections.abc import Callable
from typing import Any

from app.engine.reports.reader import Report
from app.serve.web.overview import overview
from app.serve.web.overview_rows import DestinationRow, PartitionRow

NOW_MS = 1_800_000_000_000

Record = Callable[..., dict[str, Any]]
Reports = Callable[..., dict[int, Report]]


def test_counts_of_all_partitions_add_up(record: Record, reports: Reports) -> None:
    found = overview(
        reports(
            record(0, pending={"orders": 10, "emails": 1}, overdue=2),
            record(1, pending={"orders": 2**53}, overdue=3),
        ),
        partitions=2,
        now_ms=NOW_MS,
    )
    assert found.pending == 2**53 + 11
    assert found.overdue == 5
    assert found.destinations == [
        DestinationRow(destination="orders", pending=2**53 + 10, held_since_ms=None),
        DestinationRow(destination="emails", pending=1, held_since_ms=None),
    ]


def test_the_next_due_time_is_the_earliest_of_all(record: Record, reports: Reports) -> None:
    found = overview(reports(record(0, next_due=NOW_MS + 9), record(1, next_due=None)), 2, NOW_MS)
    assert found.next_due_ms == NOW_MS + 9
    assert overview(reports(record(0, next_due=None)), 1, NOW_MS).next_due_ms is None


def test_a_destination_is_held_since_its_oldest_message_of_any_partition(record: Record, reports: Reports) -> None:
    found = overview(reports(record(0, held={"orders": 700}), record(1, held={"orders": 600})), 2, NOW_MS)
    assert [row.held_since_ms for row in found.destinations] == [600]


def test_a_held_destination_appears_even_without_a_count(record: Record, reports: Reports) -> None:
    found = overview(reports(record(0, pending={"orders": 0}, held={"emails": 5})), 1, NOW_MS)
    assert found.destinations == [DestinationRow(destination="emails", pending=0, held_since_ms=5)]


def test_a_partition_without_a_report_is_missing(record: Record, reports: Reports) -> None:
    found = overview(reports(record(1)), 3, NOW_MS)
    assert found.partitions_missing == [0, 2]
    assert found.partitions_expected == 3
    assert found.partitions[0] == PartitionRow(partition=0, state="missing")


def test_a_partition_is_stale_when_its_report_is_older_than_ten_seconds(record: Record, reports: Reports) -> None:
    timely = overview(reports(record(0), appended_ms=NOW_MS - 10_000), 1, NOW_MS)
    late = overview(reports(record(0), appended_ms=NOW_MS - 10_001), 1, NOW_MS)
    assert (timely.partitions_stale, timely.partitions[0].state) == ([], "reporting")
    assert (late.partitions_stale, late.partitions[0].state) == ([0], "stale")
    assert late.partitions[0].age_ms == 10_001


def test_a_stale_partition_counts_with_its_messages_but_not_with_its_lateness(record: Record, reports: Reports) -> None:
    old = reports(record(0, pending={"orders": 5}, lateness={"500": 9}), appended_ms=NOW_MS - 60_000)
    found = overview(old | reports(record(1, pending={"orders": 1}, lateness={"5": 1})), 2, NOW_MS)
    assert found.pending == 6
    assert (found.lateness.count, found.lateness.p99_ms) == (1, 5)


def test_a_report_from_a_clock_ahead_of_ours_has_no_negative_age(record: Record, reports: Reports) -> None:
    found = overview(reports(record(0), appended_ms=NOW_MS + 80), 1, NOW_MS)
    assert found.partitions[0].age_ms == 0


def test_workers_show_the_partitions_that_they_reported_last(record: Record, reports: Reports) -> None:
    mine, other = "http://a:6066", "http://b:6066"
    found = overview(
        reports(record(0, worker=other), record(1, worker=mine), record(2, worker=other, version="0.2.0")), 3, NOW_MS
    )
    assert [(row.worker, row.partitions, row.pending) for row in found.workers] == [
        (mine, [1], 10),
        (other, [0, 2], 20),
    ]
    assert not any(row.stale for row in found.workers)


def test_a_worker_is_stale_only_when_all_of_its_reports_are(record: Record, reports: Reports) -> None:
    old = reports(record(0, worker="a", version="1"), record(2, worker="b"), appended_ms=NOW_MS - 20_000)
    found = overview(old | reports(record(1, worker="a", version="2")), 3, NOW_MS)
    assert [(row.worker, row.stale, row.version) for row in found.workers] == [("a", False, "2"), ("b", True, "0.1.0")]


def test_a_partition_beyond_the_expected_ones_is_shown_too(record: Record, reports: Reports) -> None:
    found = overview(reports(record(7)), 1, NOW_MS)
    assert [row.partition for row in found.partitions] == [0, 7]
    assert found.pending == 10


def test_a_partition_keeps_its_positions_and_how_far_it_fired(record: Record, reports: Reports) -> None:
    row = overview(reports(record(0, positions={"delay-requests": 9, "blackbox": 2})), 1, NOW_MS).partitions[0]
    assert row.positions == {"delay-requests": 9, "blackbox": 2}
    assert row.fired_to_ms == NOW_MS - 5


def test_a_held_destination_has_its_reason_if_it_is_known(record: Record, reports: Reports) -> None:
    held = reports(record(0, held={"orders": 5, "orders@other": 6}))
    found = overview(held, 1, NOW_MS, {"orders@other": "its brokers do not answer"}.get)  # type: ignore[arg-type]

    because = {row.destination: row.held_because for row in found.destinations}
    assert because == {"orders": None, "orders@other": "its brokers do not answer"}
