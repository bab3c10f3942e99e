"""`reconcile` finds lost and late messages, and decides whether every accepted message is accounted for."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import OptionInvalid
from pipeline.jobs import reconcile
from pipeline.jobs.reconcile import moment
from pipeline.ledger import pending
from pipeline.reconcile.lost import Judge
from pipeline.reconcile.verdict import Verdict
from punctual.contract.home import home_partition
from punctual.contract.namespaces import parse_namespaces
from tests.pipeline.ledger_builder import MINUTE_MS, NOW_MS, REQUESTS_TOPIC, LedgerBuilder, progress_report

LATER_MS = NOW_MS + 60 * MINUTE_MS


def place(partition: int, offset: int) -> str:
    return f"{REQUESTS_TOPIC}-{partition}-{offset}"


def id_at_home_in(partition: int, name: str) -> str:
    """Return an id that begins with a name and has a home partition."""
    ids = (f"{name}-{number}" for number in range(1_000))
    return next(id_ for id_ in ids if home_partition(id_, (REQUESTS_TOPIC,), 4) == partition)


def test_a_message_is_lost_only_if_no_worker_can_still_deliver_it(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    ledger.reports[1] = progress_report(fired_to=NOW_MS - 60 * MINUTE_MS)  # Its worker has been down for an hour.
    ledger.reports[2] = progress_report(read=5)  # Its last report is by an old owner, which has read five requests.
    ledger.unsure = [3]
    lost = {ledger.event("accepted", place(0, 7))}

    ledger.event("delivered", ledger.event("accepted", place(0, 8)), delivered="orders-0-1", late_ms=3)
    ledger.event("accepted", place(0, 9), due_ms=LATER_MS)
    # It is overdue for less than the grace period.
    ledger.event("accepted", place(0, 10), due_ms=NOW_MS - MINUTE_MS // 2)
    ledger.event("rescheduled", ledger.event("accepted", place(0, 11)), due_ms=LATER_MS, by=place(0, 50))
    rescheduled = ledger.event("accepted", place(0, 12), due_ms=LATER_MS)
    # A worker reads this command again.
    ledger.event("rescheduled", rescheduled, due_ms=NOW_MS - 10 * MINUTE_MS, by=place(0, 100))
    lost.add(ledger.event("rescheduled", ledger.event("accepted", place(0, 13), due_ms=LATER_MS), by=place(0, 51)))
    ledger.add("rescued", source=ledger.event("accepted", place(0, 14)), id="x", to="orders", at_ms=NOW_MS, run="r")

    ledger.event("accepted", place(2, 3), "on its way")
    ledger.add("forwarded", id="on its way")
    lost.add(ledger.event("accepted", place(2, 4), "has arrived"))
    ledger.event("accepted", place(0, 15), partition=1)  # Its worker is down, so it is late, but not lost.
    ledger.event("accepted", place(2, 50), partition=2)  # The old owner has not read the request.
    ledger.event("accepted", place(0, 16), partition=3)  # It was forwarded to a partition with an open transaction.

    lost.add(ledger.request(0, 60))
    ledger.request(0, 100)  # No worker has read the request yet.
    ledger.request(0, 61, "id", op="cancel")
    ledger.request(0, 62, "id", op="promoted")
    ledger.event("refused", ledger.request(0, 63), to=None)
    for source in [*lost, place(0, 8)]:
        partition, offset = map(int, source.rsplit("-", 2)[1:])
        if offset not in (60, 8):
            ledger.request(partition, offset)
    forwarded_id = id_at_home_in(1, "forwarded")
    ledger.request(0, 64, forwarded_id)
    ledger.add("forwarded", id=forwarded_id)
    lost_id = id_at_home_in(1, "gone")
    lost.add(ledger.request(0, 65, lost_id))
    ledger.request(0, 66, id_at_home_in(3, "unsure"))

    rows = {row["source"]: row for row in Judge(ledger.lake(spark, tmp_path)).lost().collect()}
    assert set(rows) == lost
    assert (rows[place(0, 65)]["id"], rows[place(0, 65)]["partition"]) == (lost_id, 1)
    assert rows[place(2, 4)]["id"] == "has arrived"


def test_a_request_with_an_event_of_any_kind_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    ledger.event("delivered", ledger.request(0, 1), delivered="orders-0-1", late_ms=3)
    ledger.event("delivered", f"{ledger.request(0, 2)}@2", delivered="orders-0-2", late_ms=3)
    ledger.event("rescheduled", ledger.request(0, 3), by=place(0, 50))
    ledger.event("cancelled", ledger.request(0, 4), by=place(0, 51))
    lost = ledger.request(0, 5)

    assert [row["source"] for row in Judge(ledger.lake(spark, tmp_path)).lost().collect()] == [lost]


def test_messages_of_partitions_without_progress_are_unknown(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    ledger.reports[1].positions.clear()  # This partition has a new table, which has read no request.
    del ledger.reports[2]  # No worker has reported on this partition.
    for partition in range(4):
        ledger.event("accepted", ledger.request(partition, 1), partition=partition)
        ledger.request(partition, 2)
        ledger.event("accepted", place(partition, 3), partition=partition, due_ms=LATER_MS)
    judge = Judge(ledger.lake(spark, tmp_path))

    assert judge.unknown(pending(judge.lake), NOW_MS) == {1: 1, 2: 1}
    verdict = Verdict.of(judge, NOW_MS + 2 * MINUTE_MS)
    assert verdict.unknown == {1: 2, 2: 2}, "two minutes later, requests without an event are overdue too"
    assert {row["partition"] for row in verdict.lost} == {0, 3}
    assert not verdict.balanced
    [sentence] = [fault for fault in verdict.faults() if "judged" in fault]
    assert sentence.startswith("4 overdue messages cannot be judged: no worker has reported how far it has read the")


def test_a_verdict_counts_the_messages_by_day_destination_and_ending(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    yesterday_ms = NOW_MS - 24 * 60 * MINUTE_MS
    for number, ending in enumerate(("delivered", "cancelled", "replaced", "dropped", "rejected", "parked")):
        source = ledger.event("accepted", place(0, number), at_ms=yesterday_ms)
        ledger.event(ending, source, delivered="orders-0-1" if ending == "delivered" else None)
    repeated = ledger.event("accepted", place(0, 6), to="mail")
    for offset in (5, 6, 6, 7):  # The two events of offset 6 are the same delivery.
        ledger.event("delivered", repeated, to="mail", delivered=f"mail-0-{offset}")
    ledger.event("accepted", place(0, 7), due_ms=LATER_MS)
    ledger.event("accepted", place(0, 8))  # This message is lost.
    ledger.event("accepted", place(1, 9), partition=1)  # This message is late.
    ledger.event("refused", place(0, 10), to=None)
    ledger.reports = {
        0: progress_report(pending=1),
        1: progress_report(fired_to=NOW_MS - 60 * MINUTE_MS, pending=1),
        2: progress_report(),
        3: progress_report(),
    }
    lake = ledger.lake(spark, tmp_path)
    verdict = Verdict.of(Judge(lake), NOW_MS)

    rows = {(str(row["day"]), row["to"]): row for row in verdict.rows}
    assert [row["accepted"] for row in rows.values()] == [6, 1, 3, 0]
    today, day_before = "2030-03-17", "2030-03-16"
    assert {name: rows[day_before, "orders"][name] for name in ("delivered", "parked", "pending", "missing")} == {
        "delivered": 1,
        "parked": 1,
        "pending": 0,
        "missing": 0,
    }
    assert (rows[today, "mail"]["delivered"], rows[today, "mail"]["duplicates"]) == (1, 2)
    assert (rows[today, "orders"]["missing"], rows[today, "orders"]["pending"]) == (1, 2)
    assert rows[today, None]["refused"] == 1
    assert (verdict.missing, verdict.late, [row["source"] for row in verdict.lost]) == (1, 1, [place(0, 8)])
    assert [tuple(row) for row in verdict.twice] == [(place(0, 6), "mail", 2)]
    duplicates = "2 deliveries are duplicates of earlier ones."
    assert verdict.faults() == ["1 missing. Send them again with `rescue`.", duplicates]

    ledger.add("rescued", source=place(0, 8), id=place(0, 8), to="orders", at_ms=NOW_MS, run="r")
    ledger.event("delivered", place(2, 11), partition=2, delivered="orders-0-9")
    ledger.reports[0] = progress_report(pending=3)
    ledger.commit_to(lake)
    verdict = Verdict.of(Judge(lake), NOW_MS)
    assert verdict.totals["rescued"] == 1
    assert [tuple(row) for row in verdict.strange] == [(place(2, 11), "orders", "delivered")]
    assert verdict.faults() == [
        duplicates,
        "1 messages have an ending, but were never accepted.",
        "partition 0 holds 3 by its worker and 1 by the ledger; only 0 changes were in flight.",
    ]


def test_an_account_has_a_row_for_each_namespace(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = LedgerBuilder()
    ids = ("orders/1", "mail/2", "orders-delays-0-3", "orders-delays-0-3-4", "5", "other/6")
    for number, id_ in enumerate(ids):
        ledger.event("delivered", ledger.event("accepted", place(0, number), id_), id_, delivered=f"orders-0-{number}")
    ledger.event("refused", place(0, 9), "mail/9", to=None)
    ledger.event("refused", place(0, 10), to=None)
    judge = Judge(ledger.lake(spark, tmp_path))

    reconcile._tell(Verdict.of(judge, NOW_MS, parse_namespaces("orders-delays=orders,mail")))

    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("day", "2030", "all"))]
    assert rows == [
        ["day", "namespace", "to", "accepted", "delivered", "missing", "pending", "refused"],
        ["2030-03-17", "orders", "3", "3", "0", "0", "0"],
        ["2030-03-17", "-", "0", "0", "0", "0", "1"],
        ["2030-03-17", "mail", "orders", "1", "1", "0", "0", "0"],
        ["2030-03-17", "mail", "-", "0", "0", "0", "0", "1"],
        ["2030-03-17", "orders", "orders", "2", "2", "0", "0", "0"],
        ["all", "6", "6", "0", "0", "2"],
    ]


def test_no_occurrence_is_missing_after_the_end_of_a_series(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    for number, ending in enumerate(("cancelled", "replaced", "delivered")):
        source = ledger.event("accepted", place(0, number), f"series-{number}")
        ledger.event("delivered", source, source, delivered=f"orders-0-{number}")
        second = ledger.event("accepted", f"{source}@2", f"series-{number}")
        ledger.event(ending, second, f"series-{number}")
        # A crash cut off this step, except in the third series.
        ledger.event("accepted", f"{source}@3", f"series-{number}")
    first = ledger.event("accepted", place(0, 3), "series-3")
    ledger.event("delivered", first, "series-3", delivered="orders-0-3")
    ledger.event("accepted", f"{first}@2", "series-3")  # It is lost, although the series was cancelled later.
    ledger.event("delivered", ledger.event("accepted", f"{first}@3", "series-3"), "series-3", delivered="orders-0-4")
    ledger.event("cancelled", ledger.event("accepted", f"{first}@4", "series-3"), "series-3")
    verdict = Verdict.of(Judge(ledger.lake(spark, tmp_path)), NOW_MS)

    assert {row["source"] for row in verdict.lost} == {f"{place(0, 2)}@3", f"{first}@2"}
    assert (verdict.totals["accepted"], verdict.totals["missing"]) == (11, 2)
    assert verdict.faults() == ["2 missing. Send them again with `rescue`."]


@pytest.mark.parametrize("decision", ["refused", "duplicate"])
def test_a_message_whose_acceptance_was_undone_by_a_crash_is_not_missing(
    spark: SparkSession, tmp_path: Path, decision: str
) -> None:
    ledger = LedgerBuilder()
    for number, due_ms in enumerate((NOW_MS - 10 * MINUTE_MS, LATER_MS)):
        # After a crash, a worker decided differently.
        source = ledger.event("accepted", place(0, number), due_ms=due_ms)
        ledger.event(decision, source, to=None, offset=50)
    accepted_by_zombie = ledger.event("accepted", place(0, 2), offset=60)
    ledger.event(decision, accepted_by_zombie, to=None, offset=50)
    # This acceptance is later than the decision, so the message is pending.
    accepted_later = ledger.event("accepted", place(0, 3), due_ms=LATER_MS, offset=60)
    ledger.event(decision, accepted_later, to=None, offset=50)
    delivered = ledger.event("accepted", place(0, 4))
    ledger.event(decision, delivered, to=None, offset=50)
    ledger.event("delivered", delivered, delivered="orders-0-1")
    lost = ledger.event("accepted", place(0, 5))
    ledger.reports[0] = progress_report(pending=1)
    verdict = Verdict.of(Judge(ledger.lake(spark, tmp_path)), NOW_MS)

    assert [row["source"] for row in verdict.lost] == [lost]
    assert {name: verdict.totals[name] for name in ("accepted", "delivered", "pending", "missing")} == {
        "accepted": 3,
        "delivered": 1,
        "pending": 1,
        "missing": 1,
    }
    assert verdict.faults() == ["1 missing. Send them again with `rescue`."]


def test_a_time_is_a_day_a_timestamp_or_a_duration_before_now() -> None:
    assert moment("2030-03-17", NOW_MS) == 1_899_936_000_000
    assert moment("2030-03-17T00:00:01Z", NOW_MS) == 1_899_936_001_000
    assert moment("PT1H", NOW_MS) == NOW_MS - 60 * MINUTE_MS
    with pytest.raises(OptionInvalid, match="soon"):
        moment("soon", NOW_MS)
