"""Pause, resume and deliver-now of a series: no occurrence is early, or lost without an event."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.engine.steps.occurrences import due_of, is_extra
from app.engine.steps.plan import PAUSED_MS
from app.engine.steps.series_rules import rule_of
from app.engine.steps.step import Step
from tables import Series
from tables.entry import encode
from tests.app.engine.steps.test_occurrences import MINUTE, deliver, every, rest, skipped
from tests.app.workbench import Workbench
from tests.punctual.contract.records import NOW

#: Commands that leave an occurrence unchanged if none was due in between.
HELD = [("resume",), ("pause", "resume"), ("pause", "pause", "resume", "resume")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "x.db")
    yield made
    made.assert_balanced()
    made.close()


def hold(bench: Workbench, ops: tuple[str, ...], step_ms: int = 1) -> None:
    for op in ops:
        bench.now_ms += step_ms
        bench.command(op, "weekly")


def due(bench: Workbench, number: int) -> int:
    """Return when the occurrence is due that is planned for a minute after the start."""
    entry = bench.store.entry(bench.store.find("weekly") or b"")
    assert entry is not None
    assert entry.series is not None
    return due_of(rule_of(entry.series), "weekly", NOW + number * MINUTE)


# pause and resume leave the due time ---------------------------------------------------------------------------------
@pytest.mark.parametrize("ops", HELD)
def test_an_occurrence_that_is_delivered_now_is_not_lost_by_a_resume(bench: Workbench, ops: tuple[str, ...]) -> None:
    every(bench, delay_count="1")
    bench.now_ms += 10_000
    bench.command("deliver-now", "weekly")
    hold(bench, ops)

    assert bench.pending() == {"weekly": NOW + 10_000}
    deliver(bench)
    assert bench.pending() == {"weekly": NOW + MINUTE}
    deliver(bench)
    assert bench.pending() == {}


@pytest.mark.parametrize("ops", HELD)
@pytest.mark.parametrize("at", [20_000, 10 * MINUTE, 10 * MINUTE + 1])
def test_a_rescheduled_occurrence_keeps_its_time_after_a_resume(
    bench: Workbench, ops: tuple[str, ...], at: int
) -> None:
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + at))
    hold(bench, ops)

    assert bench.pending() == {"weekly": NOW + at}
    assert skipped(bench) == []


def test_an_occurrence_moved_beyond_a_pause_is_not_early_and_all_others_have_an_event(bench: Workbench) -> None:
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    hold(bench, ("pause", "resume"), 2 * MINUTE)

    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}
    deliver(bench)
    assert skipped(bench) == [("moved", 2, 9)]
    assert bench.pending() == {"weekly": NOW + 11 * MINUTE}


def test_an_occurrence_moved_into_a_pause_is_skipped_with_an_event(bench: Workbench) -> None:
    every(bench, delay_count="7")
    bench.command("reschedule", "weekly", delay_at=str(NOW + 3 * MINUTE + 500))
    bench.now_ms = NOW + 1_000
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 5 * MINUTE + 500
    bench.command("resume", "weekly")

    assert skipped(bench) == [("paused", 1, 5)]
    assert bench.pending() == {"weekly": NOW + 6 * MINUTE}
    bench.now_ms = NOW + 9 * MINUTE
    assert rest(bench) == [7]


def test_an_occurrence_brought_forward_into_a_pause_is_skipped_with_an_event(bench: Workbench) -> None:
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 30_000))
    bench.now_ms = NOW + 10_000
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 40_000
    bench.command("resume", "weekly")

    assert skipped(bench) == [("paused", 1, 1)]
    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


def test_a_moved_occurrence_that_was_due_before_a_pause_comes_after_it(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.command("reschedule", "weekly", delay_at=str(NOW + 2 * MINUTE + 500))
    bench.now_ms = NOW + 3 * MINUTE + 500
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 6 * MINUTE + 500
    bench.command("resume", "weekly")

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE + 500}
    bench.now_ms += MINUTE
    assert rest(bench) == [2, 3, 7]
    assert skipped(bench) == [("paused", 4, 3), ("moved", 2, 1)]


def test_one_more_that_was_put_off_into_a_pause_is_not_lost(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up", delay_count="5")
    hold(bench, ("deliver-now",))
    bench.command("reschedule", "weekly", delay_at=str(NOW + 30_000))
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 2 * MINUTE + 500
    bench.command("resume", "weekly")

    assert skipped(bench) == [("paused", 1, 2)]
    bench.now_ms = NOW + 9 * MINUTE
    assert rest(bench) == [0, 3, 4, 5]
    assert bench.pending() == {}


def test_a_restart_forgets_no_due_time_of_an_occurrence_that_is_paused(bench: Workbench) -> None:
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    hold(bench, ("pause",))
    bench.open_again()
    hold(bench, ("resume",))

    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}


def test_a_series_that_an_older_worker_has_paused_goes_on_as_planned(bench: Workbench) -> None:
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    hold(bench, ("pause",))
    row = bench.store.find("weekly") or b""
    entry = bench.store.entry(row)
    assert entry is not None
    assert entry.series is not None
    fields = msgspec.msgpack.decode(entry.series.rule)
    series = Series(msgspec.msgpack.encode(fields[:10]), entry.series.planned_ms)
    older = msgspec.structs.replace(entry, series=series)
    step = Step(bench.now_ms)
    step.changes.rewrite(row, older, encode(older))
    bench.apply(step)
    hold(bench, ("resume",))

    assert len(fields) == 12
    assert bench.pending() == {"weekly": NOW + MINUTE}


# commands that come late ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ops", HELD)
def test_a_reschedule_that_comes_after_a_later_resume_holds(bench: Workbench, ops: tuple[str, ...]) -> None:
    every(bench)
    bench.now_ms += 1_000
    hold(bench, ops[:-1])
    given = bench.now_ms
    bench.now_ms += 1_000
    hold(bench, ops[-1:])
    by = bench.late(2, given + 500, delay_id="weekly", delay_op="reschedule", delay_at=str(NOW + 10 * MINUTE))

    assert bench.told()[-1][::2] == ("rescheduled", by)
    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}
    bench.late(2, given + 400, delay_id="weekly", delay_op="deliver-now")
    assert bench.told()[-1][0] == "stale"
    bench.late(2, given + 600, delay_id="weekly", delay_op="pause")
    assert bench.told()[-1][0] == "stale"
    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}


def test_a_reschedule_that_comes_after_a_later_pause_holds_once_it_is_over(bench: Workbench) -> None:
    every(bench)
    bench.now_ms += 1_000
    hold(bench, ("pause",))
    bench.late(2, NOW + 500, delay_id="weekly", delay_op="reschedule", delay_at=str(NOW + 10 * MINUTE))
    assert bench.pending() == {"weekly": PAUSED_MS}
    hold(bench, ("resume",))

    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}


def test_a_reschedule_that_is_older_than_what_moved_the_occurrence_before_is_stale(bench: Workbench) -> None:
    every(bench)
    bench.now_ms += 1_000
    bench.command("reschedule", "weekly", delay_at=str(NOW + 2_000))
    deliver(bench)
    hold(bench, ("resume",))
    bench.late(2, NOW + 500, delay_id="weekly", delay_op="reschedule", delay_at=str(NOW + 10 * MINUTE))

    assert bench.told()[-1][0] == "stale"
    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


@pytest.mark.parametrize("later", ["deliver-now", "resume", "pause"])
def test_a_resume_that_comes_after_a_later_command_is_stale_and_skipped_occurrences_have_an_event(
    bench: Workbench, later: str
) -> None:
    every(bench, delay_misfire="catch-up", delay_count="5")
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 3 * MINUTE + 500
    bench.command(later, "weekly")
    by = bench.late(2, NOW + MINUTE + 500, delay_id="weekly", delay_op="resume")
    assert bench.told()[-1][::2] == ("stale", by)
    hold(bench, ("resume",))

    assert skipped(bench) == [("paused", 1, 3)]
    bench.now_ms = NOW + 9 * MINUTE
    assert rest(bench) == ([3, 4, 5] if later == "deliver-now" else [4, 5])
    assert bench.pending() == {}


# jitter --------------------------------------------------------------------------------------------------------------
def test_one_whose_jitter_makes_it_due_in_a_pause_is_skipped_with_an_event(bench: Workbench) -> None:
    every(bench, delay_jitter="50000", delay_count="3")
    bench.now_ms = due(bench, 1) - 1
    assert bench.now_ms > NOW + MINUTE
    hold(bench, ("pause", "resume"), 0)
    assert bench.pending() == {"weekly": due(bench, 1)}
    bench.command("pause", "weekly")
    bench.now_ms += 1
    bench.command("resume", "weekly")

    assert skipped(bench) == [("paused", 1, 1)]
    assert bench.pending() == {"weekly": due(bench, 2)}
    deliver(bench)
    deliver(bench)
    assert bench.pending() == {}


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
@pytest.mark.parametrize("jitter", ["50000", "PT10M"])
def test_for_overdue_occurrences_jitter_decides_which_ones_a_pause_skips(
    bench: Workbench, said: dict[str, str], jitter: str
) -> None:
    bench.ask(delay_id="weekly", delay_to="orders", delay_misfire="catch-up", delay_jitter=jitter, **said)
    bench.late(2, due(bench, 3) - 1, delay_op="pause", delay_id="weekly")
    bench.late(2, due(bench, 5) - 1, delay_op="resume", delay_id="weekly")
    bench.now_ms = NOW + 7 * MINUTE

    assert skipped(bench) == [("paused", 3, 2)]
    assert rest(bench) == [1, 2, 5, 6]


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
@pytest.mark.parametrize("jitter", ["50000", "PT10M"])
def test_an_occurrence_delivered_now_before_its_jitter_is_over_is_an_extra_one(
    bench: Workbench, said: dict[str, str], jitter: str
) -> None:
    bench.ask(delay_id="weekly", delay_to="orders", delay_count="1", delay_jitter=jitter, **said)
    planned = due(bench, 1)
    bench.now_ms = (NOW + MINUTE + planned) // 2
    assert NOW + MINUTE < bench.now_ms < planned
    bench.command("deliver-now", "weekly")
    bench.now_ms += 1
    bench.command("deliver-now", "weekly")
    assert bench.pending() == {"weekly": bench.now_ms}
    deliver(bench)

    assert bench.pending() == {"weekly": planned}
    deliver(bench)
    assert bench.pending() == {}
    assert skipped(bench) == []


def test_one_more_that_is_put_off_to_the_planned_time_takes_its_place(bench: Workbench) -> None:
    every(bench)
    hold(bench, ("deliver-now",))
    bench.command("reschedule", "weekly", delay_at=str(NOW + MINUTE))
    deliver(bench)

    assert skipped(bench) == [("moved", 1, 1)]
    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


@pytest.mark.parametrize("paused_ms", [1_000, MINUTE + 500])
def test_an_occurrence_delivered_now_during_a_pause_is_an_extra_one(bench: Workbench, paused_ms: int) -> None:
    every(bench)
    bench.command("pause", "weekly")
    bench.now_ms = NOW + paused_ms
    bench.command("deliver-now", "weekly")
    entry = bench.store.entry(bench.store.find("weekly") or b"")

    assert entry is not None
    assert entry.series is not None
    assert is_extra(entry.series)
    assert bench.pending() == {"weekly": bench.now_ms}
    deliver(bench)
    assert bench.pending() == {"weekly": NOW + (1 if paused_ms < MINUTE else 2) * MINUTE}


def test_a_pause_may_say_that_it_holds_for_longer(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.now_ms = NOW + 5 * MINUTE + 500
    bench.command("pause", "weekly", delay_at=str(NOW + 2 * MINUTE + 500))
    bench.now_ms = NOW + 6 * MINUTE + 500
    bench.command("resume", "weekly")

    assert rest(bench) == [1, 2]
    assert skipped(bench) == [("paused", 3, 4)]


def test_a_pause_holds_from_its_stamp_on_if_it_says_a_later_time(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.now_ms = NOW + MINUTE + 500
    bench.late(2, NOW + 500, delay_op="pause", delay_id="weekly", delay_at=str(NOW + 9 * MINUTE))
    bench.command("resume", "weekly")

    assert skipped(bench) == [("paused", 1, 1)]
