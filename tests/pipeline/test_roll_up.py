"""A reconciliation that reads only new and open messages reaches the same verdict as one of the whole ledger."""

import copy
import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.lake import Lake
from pipeline.ledger.lives import NO_NAMESPACES
from pipeline.reconcile import roll_up
from pipeline.reconcile.lost import Judge
from pipeline.reconcile.roll_up import since_roll_up
from pipeline.reconcile.verdict import Verdict
from punctual.contract.namespaces import Namespaces, parse_namespaces
from tests.pipeline.ledger_builder import MINUTE_MS, NOW_MS, LedgerBuilder, progress_report

LATER_MS = NOW_MS + 60 * MINUTE_MS
#: What may happen to a message between two runs of the ledger.
HAPPENINGS = (
    *[("delivered",)] * 6,
    *((event,) for event in ("cancelled", "replaced", "rejected", "parked", "rescheduled", "refused", "duplicate")),
    ("accepted",),
    ("delivered", "delivered"),
    ("delivered", "accepted", "delivered"),
    ("refused", "accepted"),
)


@pytest.fixture(autouse=True)
def roll_ups_of_small_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_up, "_pays", lambda *_: True)


def whole(lake: Lake) -> Lake:
    """Return a ledger as if it had never been rolled up."""
    copied = copy.copy(lake)
    notes = {name: note for name, note in lake.head.notes.items() if name != "rolled_up"}
    copied.head = dataclasses.replace(lake.head, notes=notes)
    return copied


def is_narrowed(lake: Lake, namespaces: Namespaces = NO_NAMESPACES) -> bool:
    with since_roll_up(Judge(lake), namespaces) as (judge, _):
        return judge.lake is not lake


def ended(ledger: LedgerBuilder, offset: int) -> str:
    return ledger.event(
        "delivered", ledger.event("accepted", ledger.request(0, offset)), delivered=f"orders-0-{offset}"
    )


def test_a_second_reconciliation_reads_only_what_is_new_or_open(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    for offset in range(5):
        ended(ledger, offset)
    waiting = ledger.event("accepted", ledger.request(0, 5), due_ms=LATER_MS)
    lost = ledger.event("accepted", ledger.request(0, 6))
    silent = ledger.request(0, 7)
    ledger.event("refused", ledger.request(0, 8), to=None)
    command = ledger.request(0, 9, "id", op="cancel")
    lake = ledger.lake(spark, tmp_path)
    assert {row["source"] for row in Verdict.of(Judge(lake), NOW_MS, rolls_up=True).lost} == {lost, silent}

    ledger.event("delivered", waiting, delivered="orders-0-5")
    ledger.event("delivered", lost, delivered="orders-0-6")
    ended(ledger, 10)
    ledger.event("unknown", command)
    ledger.commit_to(lake)
    with since_roll_up(Judge(lake), NO_NAMESPACES) as (judge, rolled_up):
        assert {row["source_offset"] for row in judge.lake.rows(("accepted", "outcomes")).collect()} == {5, 6, 10}
        assert [(counts["delivered"], counts["refused"]) for counts in rolled_up.values()] == [(5, 0), (0, 1)]
    verdict = Verdict.of(Judge(lake), NOW_MS, rolls_up=True)
    assert (verdict.totals["accepted"], verdict.totals["delivered"], verdict.missing) == (8, 8, 1)
    assert is_narrowed(lake)


@pytest.mark.parametrize(
    ("others", "concerns"),
    [
        ("", True),
        ("'others', false, 'e', 0, 3L, 't', 0, 8L", True),
        ("'requests', false, 't', 0, 7L, null, null, null", False),
        ("'requests', true, 't', 0, 7L, null, null, null", False),
        ("'accepted', true, 'e', 0, 1L, 't', 0, 7L", False),
        ("'accepted', false, 'e', 0, 1L, 't', 0, 7L", True),
        ("'requests', true, 't', 0, 8L, null, null, null", True),
        ("'requests', true, 't', 1, 7L, null, null, null", True),
    ],
)
@pytest.mark.parametrize("kind", ["accepted", "outcomes", "rescheduled", "others", "rescued"])
def test_an_event_without_its_request_and_without_a_copied_row_is_about_a_message_that_is_rolled_up(
    kind: str, others: str, *, concerns: bool, spark: SparkSession, tmp_path: Path
) -> None:
    values = [f"'{kind}', false, 'e', 0, 9L, 't', 0, 7L", "'others', false, 'e', 0, 2L, null, null, null", others]
    columns = "kind, copied, topic, partition, offset, source_topic, source_partition, source_offset"
    table = ", ".join(f"({row})" for row in values if row)
    lake = Lake(spark, str(tmp_path), "ledger", "p")
    lake.head = dataclasses.replace(lake.head, positions={"t": {0: 8}})
    rows = spark.sql(f"SELECT * FROM VALUES {table} AS t({columns})")  # noqa: S608 - of the test's own values
    assert roll_up._has_event_of_rolled_up(rows, lake) is concerns
    lake.head = dataclasses.replace(lake.head, positions={"t": {0: 7}})
    assert not roll_up._has_event_of_rolled_up(rows, lake), "the request follows"


def test_the_account_by_other_namespaces_or_of_other_inputs_is_of_the_whole_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger = LedgerBuilder()
    ledger.event(
        "delivered", ledger.event("accepted", ledger.request(0, 0), "team/a"), "team/a", delivered="orders-0-1"
    )
    lake, namespaces = ledger.lake(spark, tmp_path), parse_namespaces("team")
    Verdict.of(Judge(lake), NOW_MS, namespaces, rolls_up=True)
    assert not is_narrowed(lake)
    assert is_narrowed(lake, namespaces)
    assert [row["namespace"] for row in Verdict.of(Judge(lake), NOW_MS, namespaces).rows] == ["team"]
    lake.commit(positions={"other-requests": {0: 0}})
    assert not is_narrowed(lake, namespaces), "the requests of an input that is new to the ledger follow"


def test_no_roll_up_is_better_than_a_wrong_one(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = LedgerBuilder()
    erased = [ended(ledger, 0)]
    ended(ledger, 1)
    lake = ledger.lake(spark, tmp_path)
    other = copy.copy(lake)
    assert Verdict.of(Judge(lake), NOW_MS, rolls_up=True).totals["accepted"] == 2
    Verdict.of(Judge(other), NOW_MS, rolls_up=True)
    assert Lake(spark, str(tmp_path), "ledger", "p").head.run == lake.head.run, "another run has committed"

    lake.erase(erased, [])
    assert not is_narrowed(lake), "the counts of the roll-up include erased messages"
    spark.sql(f"ALTER TABLE delta.`{tmp_path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    lake.commit()
    assert Verdict.of(Judge(lake), NOW_MS, rolls_up=True).totals["accepted"] == 1, "a failure does not lose the verdict"
    assert "Ended messages are not rolled up" in capsys.readouterr().err


def test_a_random_ledger_has_the_same_verdict_at_every_step(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll_up, "_YOUNG_MS", -(1 << 50))  # commands are rolled up at once
    reads_whole: list[bool] = []
    check = roll_up._has_event_of_rolled_up

    def noted(rows: DataFrame, lake: Lake) -> bool:
        reads_whole.append(check(rows, lake))
        return reads_whole[-1]

    monkeypatch.setattr(roll_up, "_has_event_of_rolled_up", noted)
    chance = random.Random(1)  # noqa: S311 - not for cryptography
    ledger = LedgerBuilder()
    ledger.reports = {number: progress_report(pending=chance.randrange(4)) for number in range(4)}
    lake = Lake(spark, str(tmp_path), "ledger", "p")
    pending: list[str] = []
    late_requests: list[dict[str, Any]] = []
    first, offset = ended(ledger, 0), 1
    for step in range(3):
        for _ in range(6):
            partition, due_ms = chance.randrange(4), chance.choice([LATER_MS, NOW_MS - 10 * MINUTE_MS])
            op = chance.choice(["schedule"] * 4 + ["cancel"])
            source, offset = ledger.request(partition, offset, op=op), offset + 1
            if chance.random() < 0.9:
                pending.append(ledger.event("accepted", source, partition=partition, due_ms=due_ms))
        # A run of the ledger reads events that are newer than the requests that it reads.
        requests = [*late_requests, *ledger.rows["requests"]]
        ledger.rows["requests"], late_requests = requests[:-2], requests[-2:]
        newest, older = pending[-1:], pending[:-1]
        chance.shuffle(older)
        changed, pending = [*newest, *older[:4]], older[4:]
        for source in changed:
            life = chance.choice([source] * 6 + [f"{source}@2"])
            for event in chance.choice(HAPPENINGS):
                ledger.event(event, life, delivered=f"orders-0-{offset}" if event == "delivered" else None)
                offset += 1
        if step == 2:
            ledger.event("delivered", first, delivered=f"orders-0-{offset}")  # a worker has crashed
        ledger.commit_to(lake)
        assert Verdict.of(Judge(lake), NOW_MS, rolls_up=True) == Verdict.of(Judge(whole(lake)), NOW_MS)
    assert reads_whole == [False, True]
