"""Recurring messages: each ending of an occurrence puts the next one in its place, in the same step."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.steps.occurrences import due_of, is_missed
from app.engine.steps.outcomes import Attempted, Dropped, Rejected, Unsent
from app.engine.steps.plan import PAUSED_MS, Plan, Rule
from app.engine.steps.series_rules import begun, rule_of
from app.engine.steps.step import Step
from punctual.contract.recurrence import Recurrence
from punctual.contract.request import Reason
from tables import keys
from tests.app.workbench import Event, Workbench
from tests.punctual.contract.records import NOW

MINUTE = 60_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "x.db")
    yield made
    made.assert_balanced()
    made.close()


def every(bench: Workbench, id_: str = "weekly", **said: str) -> str:
    """Ask for a message each minute, from one minute after now on; return the source of the request."""
    record = bench.ask(delay_id=id_, delay_to="orders", delay_every="PT1M", **said)
    return f"{record.topic}-{record.partition}-{record.offset}"


def deliver(bench: Workbench, id_: str = "weekly") -> list[Event]:
    """Deliver the due message at its due time; return the events."""
    row = bench.claim(id_)
    bench.now_ms = max(bench.now_ms, keys.due_of(row))
    return bench.run(bench.delivered(row))


def kinds(events: list[Event]) -> list[tuple[str, int, int | None]]:
    """Return kind, due time in minutes after the start, and occurrence of each event."""
    return [(event["event"], (event["due"] - NOW) // MINUTE, event.get("occurrence")) for event in events]


def test_each_delivery_puts_the_next_occurrence_in_its_place(bench: Workbench) -> None:
    source = every(bench)
    assert kinds(bench.events) == [("accepted", 1, None)]
    assert kinds(deliver(bench)) == [("delivered", 1, None), ("accepted", 2, 2)]
    assert kinds(deliver(bench)) == [("delivered", 2, 2), ("accepted", 3, 3)]

    assert {event["source"] for event in bench.events} == {source}
    assert bench.pending() == {"weekly": NOW + 3 * MINUTE}
    assert not bench.memory.of(Step(bench.now_ms), "weekly")


def test_it_does_not_drift_when_deliveries_are_late(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.now_ms = NOW + MINUTE + 40_000
    bench.run(bench.delivered(row))

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


def test_a_count_ends_it(bench: Workbench) -> None:
    every(bench, delay_count="2")
    deliver(bench)

    assert kinds(deliver(bench)) == [("delivered", 2, 2)]
    assert bench.pending() == {}


def test_an_occurrence_that_is_given_up_does_not_stop_its_series_and_its_dead_letter_is_one_message(
    bench: Workbench,
) -> None:
    every(bench)
    row = bench.claim("weekly")
    events = bench.run(Rejected(row, Reason.TOO_LARGE, "too large"))

    assert kinds(events) == [("rejected", 1, None), ("accepted", 2, 2)]
    letter = dict(bench.sends[-1].headers)
    assert letter["delay-id"] == b"weekly@%d" % (NOW + MINUTE)
    assert "delay-every" not in letter


def test_an_occurrence_that_is_too_late_is_dropped_and_the_next_one_waits(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.now_ms = NOW + MINUTE + 10_000

    assert kinds(bench.run(Dropped(row, 10_000))) == [("dropped", 1, None), ("accepted", 2, 2)]


def test_an_occurrence_over_http_is_tried_again_before_the_next_one(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.run(Attempted(row, "503"))
    assert bench.pending() == {"weekly": NOW + MINUTE}

    assert kinds(deliver(bench)) == [("delivered", 1, None), ("accepted", 2, 2)]


@pytest.mark.parametrize(
    ("misfire", "late_min", "missed", "next_min"),
    [
        ("catch-up", 5, False, 2),
        ("catch-up PT3M", 5, True, 4),
        ("catch-up-last", 5, True, 6),
        ("catch-up-last PT30S", 5, True, 7),
        ("skip", 5, True, 6),
        ("catch-up-last", 0, False, 2),
        ("skip", 0, False, 2),
    ],
)
def test_missed_occurrences_follow_the_policy(
    bench: Workbench, misfire: str, late_min: int, missed: object, next_min: int
) -> None:
    every(bench, delay_misfire=misfire)
    row = bench.claim("weekly")
    bench.now_ms = NOW + (1 + late_min) * MINUTE + 45_000 * bool(late_min)

    assert is_missed(bench.claims[row], row, bench.now_ms) is missed
    late = bench.now_ms - keys.due_of(row)
    events = bench.run(Dropped(row, late, "missed") if missed else bench.delivered(row))
    ending = "dropped" if missed else "delivered"
    skipped = [("skipped", 2, None)] if next_min > 2 else []
    assert kinds(events) == [(ending, 1, None), *skipped, ("accepted", next_min, 2)]
    assert [event["count"] for event in events if event["event"] == "skipped"] == [next_min - 2][: len(skipped)]


def test_a_cancel_ends_the_series(bench: Workbench) -> None:
    every(bench)
    deliver(bench)
    bench.command("cancel", "weekly")

    assert bench.pending() == {}
    assert kinds(bench.events)[-1] == ("cancelled", 2, 2)


def test_a_cancel_while_an_occurrence_is_being_sent_ends_the_series_after_it(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.command("cancel", "weekly")

    assert kinds(bench.run(bench.delivered(row))) == [("delivered", 1, None), ("accepted", 2, 2), ("cancelled", 2, 2)]
    assert bench.pending() == {}


def test_a_reschedule_while_an_occurrence_is_being_sent_moves_the_next_one(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    bench.run(bench.delivered(row))

    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}
    deliver(bench)
    assert bench.pending() == {"weekly": NOW + 11 * MINUTE}


def test_a_command_during_the_last_occurrence_comes_too_late(bench: Workbench) -> None:
    every(bench, delay_count="1")
    row = bench.claim("weekly")
    bench.command("cancel", "weekly")

    assert kinds(bench.run(bench.delivered(row))) == [("delivered", 1, None), ("conflict", 1, None)]


def test_a_replacement_while_an_occurrence_is_being_sent_takes_the_place_of_the_series(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.schedule("weekly", NOW + 7 * MINUTE)

    assert kinds(bench.run(bench.delivered(row))) == [("delivered", 1, None)]
    assert bench.pending() == {"weekly": NOW + 7 * MINUTE}


def test_an_occurrence_that_is_delivered_now_is_an_extra_one(bench: Workbench) -> None:
    every(bench)
    bench.now_ms += 10_000
    bench.command("deliver-now", "weekly")
    assert bench.pending() == {"weekly": NOW + 10_000}
    deliver(bench)

    assert bench.pending() == {"weekly": NOW + MINUTE}


def test_an_occurrence_that_is_brought_forward_is_not_delivered_twice(bench: Workbench) -> None:
    every(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 30_000))
    deliver(bench)

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


def test_a_pause_holds_a_series_and_a_resume_continues_with_the_next_planned_occurrence(bench: Workbench) -> None:
    every(bench)
    bench.command("pause", "weekly")
    assert bench.pending() == {"weekly": PAUSED_MS}
    bench.now_ms += 90_000
    bench.command("resume", "weekly")

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}
    assert kinds(deliver(bench)) == [("delivered", 2, None), ("accepted", 3, 2)]


def test_a_pause_while_an_occurrence_is_being_sent_holds_the_next_one(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.command("pause", "weekly")
    bench.run(bench.delivered(row))

    assert bench.pending() == {"weekly": PAUSED_MS}


def test_a_message_that_does_not_recur_is_not_paused(bench: Workbench) -> None:
    bench.schedule("digest", NOW + MINUTE)
    by = bench.command("pause", "digest")

    assert bench.told()[-1] == ("conflict", "delay-requests-0-0", by)
    assert bench.pending() == {"digest": NOW + MINUTE}


def test_a_pause_that_comes_before_its_series_holds_it(bench: Workbench) -> None:
    bench.late(2, NOW - 1, delay_op="pause", delay_id="weekly")
    bench.late(3, NOW - 2, delay_id="weekly", delay_to="orders", delay_every="PT1M")

    assert bench.pending() == {"weekly": PAUSED_MS}


# late records for a series, and commands that do not fit their message ------------------------------------------------
def plain(bench: Workbench, stamp: int, due: int) -> None:
    """Take in a late request that was made at `stamp`, for a message that does not recur."""
    bench.late(2, stamp, delay_id="weekly", delay_to="orders", delay_at=str(due))


@pytest.mark.parametrize("ops", [("pause",), ("pause", "resume")])
def test_what_replaces_a_series_is_not_held_by_what_held_that(bench: Workbench, ops: tuple[str, ...]) -> None:
    every(bench)
    bench.now_ms += 100
    for op in ops:
        bench.command(op, "weekly")
    plain(bench, NOW + 50, NOW + 5 * MINUTE)

    assert bench.pending() == {"weekly": NOW + 5 * MINUTE}
    assert bench.told()[-1][0] == "conflict"


def test_what_follows_a_series_that_was_held_is_not_held(bench: Workbench) -> None:
    every(bench)
    bench.now_ms += 100
    bench.command("pause", "weekly")
    bench.late(2, NOW + 70, delay_id="weekly", delay_op="cancel")
    plain(bench, NOW + 80, NOW + 5 * MINUTE)

    assert bench.pending() == {"weekly": NOW + 5 * MINUTE}


def test_a_series_that_comes_late_is_held_by_an_earlier_pause(bench: Workbench) -> None:
    bench.schedule("weekly", NOW + 5 * MINUTE)
    bench.now_ms += 100
    bench.command("pause", "weekly")
    bench.late(2, NOW + 50, delay_id="weekly", delay_to="orders", delay_every="PT1M")

    assert bench.pending() == {"weekly": PAUSED_MS}


@pytest.mark.parametrize("op", ["reschedule", "deliver-now"])
def test_a_replacement_of_a_series_does_not_get_the_due_time_of_an_unmoved_occurrence(
    bench: Workbench, op: str
) -> None:
    every(bench)
    bench.now_ms += 100
    bench.command(op, "weekly", **({"delay_at": str(NOW + 1_000)} if op == "reschedule" else {}))
    deliver(bench)
    plain(bench, NOW + 50, NOW + 5 * MINUTE)

    assert bench.pending() == {"weekly": NOW + 5 * MINUTE}


def test_what_replaces_a_series_whose_occurrence_was_moved_is_moved(bench: Workbench) -> None:
    every(bench)
    bench.now_ms += 100
    bench.command("reschedule", "weekly", delay_at=str(NOW + 1_000))
    plain(bench, NOW + 50, NOW + 5 * MINUTE)

    assert bench.pending() == {"weekly": NOW + 1_000}


@pytest.mark.parametrize("first", ["reschedule", "pause"])
def test_a_pause_that_waits_leaves_a_reschedule_that_waits(bench: Workbench, first: str) -> None:
    """Whether their message recurs is not known yet."""
    orders = {"reschedule": (NOW + 50, {"delay_at": str(NOW + 9 * MINUTE)}), "pause": (NOW + 100, {})}
    for op in sorted(orders, key=lambda op: op != first):
        stamp, more = orders[op]
        bench.late(3, stamp, delay_id="weekly", delay_op=op, **more)
    plain(bench, NOW, NOW + MINUTE)

    assert bench.pending() == {"weekly": NOW + 9 * MINUTE}


def test_jitter_moves_each_occurrence_and_not_the_plan(bench: Workbench) -> None:
    every(bench, delay_jitter="20000")
    dues = []
    for _ in range(20):
        dues.append(bench.pending()["weekly"] - NOW)
        deliver(bench)

    assert [due // MINUTE for due in dues] == list(range(1, 21))
    assert len({due % MINUTE for due in dues}) > 10
    assert all(due % MINUTE <= 20_000 for due in dues)


def test_jitter_longer_than_the_interval_drops_no_occurrence(bench: Workbench) -> None:
    every(bench, delay_jitter="PT10M")
    dues = []
    for number in range(1, 20):
        row = bench.claim("weekly")
        dues.append(keys.due_of(row))
        assert not is_missed(bench.claims[row], row, dues[-1])
        assert NOW + number * MINUTE <= dues[-1] < NOW + (number + 1) * MINUTE
        bench.now_ms = max(bench.now_ms, dues[-1])
        assert [event["event"] for event in bench.run(bench.delivered(row))] == ["delivered", "accepted"]
    assert len({due % MINUTE for due in dues}) > 15


def test_older_workers_in_the_installation_are_no_place_for_it(bench: Workbench) -> None:
    record = bench.log.record(NOW, delay_id="weekly", delay_to="orders", delay_every="PT1M")
    step = Step(NOW, version=3)
    bench._take(step, [record])

    assert [event["event"] for event in bench.apply(step)] == ["refused"]
    assert "Upgrade these workers" in (dict(bench.sends[-1].headers)["delay-error"] or b"").decode()


def test_fields_of_a_newer_worker_are_refused_where_older_rows_are_written(bench: Workbench) -> None:
    record = bench.from_elsewhere(0, NOW, delay_id="weekly", delay_to="orders", delay_every="PT1M")
    step = Step(NOW, version=3)
    bench._take(step, [record])

    assert [event["event"] for event in bench.apply(step)] == ["refused"]
    assert not bench.pending()


def test_a_series_and_a_debounced_message_of_the_same_id_have_no_bound_in_common(bench: Workbench) -> None:
    bench.schedule("weekly", NOW + 1_000, delay_no_later="2000")
    every(bench)
    assert bench.pending() == {"weekly": NOW + MINUTE}
    for _ in range(3):
        deliver(bench)
    bench.schedule("weekly", bench.now_ms + 5_000, delay_no_later="PT10S")

    assert bench.pending() == {"weekly": bench.now_ms + 5_000}


def test_a_time_zone_that_this_worker_does_not_know_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    series = begun(Recurrence(None, "0 0 * * *", zone="Moon/Tranquility"), NOW)

    assert rule_of(series).after(NOW) == NOW + 24 * 60 * MINUTE
    assert "Update tzdata" in caplog.text


def test_an_occurrence_delivered_now_after_a_pause_and_a_resume_is_still_an_extra_one(bench: Workbench) -> None:
    every(bench)
    row = bench.claim("weekly")
    bench.now_ms = NOW + MINUTE + 1
    for op in ("deliver-now", "pause", "resume"):
        bench.command(op, "weekly")
    bench.run(bench.delivered(row))

    assert bench.pending() == {"weekly": NOW + MINUTE + 1}
    assert kinds(deliver(bench))[-1] == ("accepted", 2, 3)


# commands on a series that is overdue: all counts from their stamps --------------------------------------------------
def rest(bench: Workbench, id_: str = "weekly") -> list[int]:
    """Deliver occurrences until the next one is in the future; return their due times in minutes after the start."""
    found = []
    while id_ in bench.pending() and bench.pending()[id_] <= bench.now_ms:
        row = bench.claim(id_)
        due = keys.due_of(row)
        if is_missed(bench.claims[row], row, bench.now_ms):
            bench.run(Dropped(row, bench.now_ms - due, "missed"))
        else:
            found.append((due - NOW) // MINUTE)
            bench.run(bench.delivered(row))
    return found


def skipped(bench: Workbench) -> list[tuple[str, int, int]]:
    """Return why, from which minute on and how many occurrences were skipped."""
    return [
        (event["reason"], (event["due"] - NOW) // MINUTE, event["count"])
        for event in bench.events
        if event["event"] == "skipped"
    ]


def test_an_overdue_occurrence_that_is_delivered_now_loses_no_other(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.now_ms = NOW + 10 * MINUTE + 500
    bench.command("deliver-now", "weekly")

    assert rest(bench) == list(range(1, 11))
    assert skipped(bench) == []
    assert bench.pending() == {"weekly": NOW + 11 * MINUTE}


def test_a_message_that_is_overdue_stays_as_overdue_when_it_is_to_be_delivered_now(bench: Workbench) -> None:
    bench.schedule("digest", NOW + MINUTE)
    bench.now_ms = NOW + 3 * MINUTE
    bench.command("deliver-now", "digest")

    assert bench.pending() == {"digest": NOW + MINUTE}


def test_an_extra_occurrence_does_not_count(bench: Workbench) -> None:
    every(bench, delay_count="2")
    bench.now_ms = NOW + 1_000
    bench.command("deliver-now", "weekly")

    assert rest(bench) == [0]
    bench.now_ms = NOW + 5 * MINUTE
    assert rest(bench) == [2]  # the last of the two that were planned
    assert bench.pending() == {}


def test_an_occurrence_that_is_delivered_now_twice_is_one_extra(bench: Workbench) -> None:
    every(bench, delay_count="2", delay_misfire="catch-up")
    bench.now_ms = NOW + 1_000
    bench.command("deliver-now", "weekly")
    bench.command("reschedule", "weekly", delay_at=str(NOW + 30_000))
    bench.command("deliver-now", "weekly")
    bench.now_ms = NOW + 5 * MINUTE

    assert rest(bench) == [0, 1, 2]


def test_a_series_that_was_resumed_in_an_outage_goes_on_from_then(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 14 * MINUTE + 500
    bench.late(2, NOW + 2 * MINUTE + 500, delay_op="resume", delay_id="weekly")

    assert skipped(bench) == [("paused", 1, 2)]
    assert rest(bench) == list(range(3, 15))


def test_occurrences_due_before_a_pause_come_when_it_is_over(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.now_ms = NOW + 9 * MINUTE + 500
    bench.late(2, NOW + 3 * MINUTE + 500, delay_op="pause", delay_id="weekly")
    assert bench.pending() == {"weekly": PAUSED_MS}
    bench.late(2, NOW + 4 * MINUTE + 500, delay_op="pause", delay_id="weekly")
    bench.late(2, NOW + 6 * MINUTE + 500, delay_op="resume", delay_id="weekly")

    assert rest(bench) == [1, 2, 3, 7, 8, 9]
    assert skipped(bench) == [("paused", 4, 3)]
    entry = bench.store.entry(bench.store.find("weekly") or b"")
    assert entry is not None
    assert entry.series is not None
    assert rule_of(entry.series).held == ()


def test_a_resume_without_a_pause_loses_no_occurrence(bench: Workbench) -> None:
    every(bench, delay_misfire="catch-up")
    bench.now_ms = NOW + 5 * MINUTE
    bench.command("resume", "weekly")

    assert rest(bench) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("end", [{"delay_until": str(NOW + 5 * MINUTE)}, {"delay_count": "5"}])
def test_a_series_that_is_resumed_after_its_end_is_over(bench: Workbench, end: dict[str, str]) -> None:
    every(bench, **end)
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 7 * MINUTE
    by = bench.command("resume", "weekly")

    assert bench.pending() == {}
    assert skipped(bench) == [("paused", 2, 4)]
    ending = bench.events[-1]
    assert (ending["event"], ending["reason"], ending["by"]) == ("dropped", "missed", by)


@pytest.mark.parametrize("end", [{"delay_until": str(NOW + 5 * MINUTE)}, {"delay_count": "5"}])
def test_a_series_that_is_paused_and_run_now_after_its_end_runs_once(bench: Workbench, end: dict[str, str]) -> None:
    every(bench, **end)
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 7 * MINUTE
    bench.command("deliver-now", "weekly")

    assert rest(bench) == [7]
    assert bench.pending() == {}
    assert skipped(bench) == [("paused", 1, 5)]  # all planned occurrences: the delivered one is an extra


def test_a_postponed_occurrence_has_an_event_for_the_one_that_it_replaces(bench: Workbench) -> None:
    every(bench, delay_count="5", delay_misfire="catch-up")
    bench.command("reschedule", "weekly", delay_at=str(NOW + 3 * MINUTE + 500))
    bench.now_ms = NOW + 4 * MINUTE

    assert rest(bench) == [3, 4]
    assert skipped(bench) == [("moved", 2, 2)]
    bench.now_ms = NOW + 9 * MINUTE
    assert rest(bench) == [5]
    assert bench.pending() == {}


# delay-count and delay-until, across an outage -----------------------------------------------------------------------
@pytest.mark.parametrize("end", [{"delay_until": str(NOW + 5 * MINUTE)}, {"delay_count": "5"}])
@pytest.mark.parametrize(
    ("misfire", "sent", "passed"),
    [
        ("catch-up", [1, 2, 3, 4, 5], []),
        ("catch-up-last", [5], [("missed", 2, 3)]),
        ("catch-up PT4M", [4, 5], [("missed", 2, 2)]),
        ("catch-up PT1M", [], [("missed", 2, 3)]),
        ("catch-up-last PT1M", [], [("missed", 2, 3)]),
        ("skip", [], [("missed", 2, 3)]),
        ("skip PT3M", [5], [("missed", 2, 3)]),
    ],
)
def test_an_outage_across_the_end_of_a_series(
    bench: Workbench, misfire: str, sent: list[int], passed: list[tuple[str, int, int]], end: dict[str, str]
) -> None:
    every(bench, delay_misfire=misfire, **end)
    bench.now_ms = NOW + 7 * MINUTE + 500

    assert rest(bench) == sent
    assert skipped(bench) == passed
    assert bench.pending() == {}
    ended = sum(event["event"] in ("delivered", "dropped") for event in bench.events)
    assert ended + sum(number for _, _, number in passed) == 5


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
@pytest.mark.parametrize("misfire", ["catch-up-last", "catch-up PT2M", "skip"])
def test_a_count_ends_when_its_last_planned_time_is_there(bench: Workbench, misfire: str, said: dict[str, str]) -> None:
    bench.ask(delay_id="weekly", delay_to="orders", delay_count="10", delay_misfire=misfire, **said)
    first = bench.pending()["weekly"]
    rest(bench)
    bench.now_ms = first + 5 * MINUTE + 100
    rest(bench)
    bench.now_ms = first + 20 * MINUTE
    rest(bench)

    assert bench.pending() == {}
    ended = [event for event in bench.events if event["event"] in ("delivered", "dropped")]
    assert len(ended) + sum(number for _, _, number in skipped(bench)) == 10
    assert max(event["due"] for event in ended) <= first + 9 * MINUTE


# locks ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("op", ["cancel", "pause", "deliver-now", "reschedule"])
def test_a_lock_on_a_series_holds_after_an_occurrence(bench: Workbench, op: str) -> None:
    every(bench)
    shown = bench.pending()["weekly"]
    deliver(bench)
    deliver(bench)
    more = {"delay_at": str(bench.now_ms + 5 * MINUTE)} if op == "reschedule" else {}
    by = bench.command(op, "weekly", delay_if_due=str(shown), **more)

    told = {event["event"] for event in bench.events if event.get("by") == by}
    assert told == {"cancelled" if op == "cancel" else "rescheduled"}


def test_a_lock_on_a_series_with_jitter_holds_for_each_due_time(bench: Workbench) -> None:
    every(bench, delay_jitter="20000")
    shown = bench.pending()["weekly"]
    deliver(bench)
    bench.command("pause", "weekly", delay_if_due=str(shown))

    assert bench.pending() == {"weekly": PAUSED_MS}


def test_a_lock_on_a_series_holds_while_it_is_paused_or_being_sent(bench: Workbench) -> None:
    every(bench)
    shown = bench.pending()["weekly"]
    bench.command("pause", "weekly")
    bench.command("resume", "weekly", delay_if_due=str(shown))
    row = bench.claim("weekly")
    bench.command("cancel", "weekly", delay_if_due=str(shown))
    bench.run(bench.delivered(row))

    assert bench.pending() == {}


def test_a_lock_on_a_series_does_not_hold_for_another_rule(bench: Workbench) -> None:
    every(bench)
    shown = bench.pending()["weekly"]
    bench.ask(delay_id="weekly", delay_to="orders", delay_every="PT1M", delay_at=str(NOW + 90_000))
    by = bench.command("cancel", "weekly", delay_if_due=str(shown))

    assert bench.told()[-1][::2] == ("conflict", by)


@pytest.mark.parametrize("end", [{"delay_until": str(NOW + 5 * MINUTE)}, {"delay_count": "5"}])
@pytest.mark.parametrize("jitter", [{}, {"delay_jitter": "20000"}])
def test_a_lock_on_a_series_does_not_hold_for_a_time_after_its_end(
    bench: Workbench, end: dict[str, str], jitter: dict[str, str]
) -> None:
    every(bench, **end, **jitter)
    deliver(bench)
    for lock in (NOW + 6 * MINUTE, due_of(Rule(MINUTE, None, NOW, jitter_ms=20_000), "weekly", NOW + 6 * MINUTE)):
        by = bench.command("cancel", "weekly", delay_if_due=str(lock))
        assert bench.told()[-1][::2] == ("conflict", by)
    by = bench.command("pause", "weekly", delay_if_due=str(NOW + 5 * MINUTE))
    assert bench.told()[-1][::2] == ("rescheduled", by)
    by = bench.command("cancel", "weekly", delay_if_due=str(NOW + MINUTE))

    assert bench.told()[-1][::2] == ("cancelled", by)


@pytest.mark.parametrize("lock", [NOW // 60_000 * 60_000 + 6 * MINUTE, 249_999_999_960_000])
def test_a_lock_costs_no_more_the_further_ahead_its_time_is(bench: Workbench, lock: int) -> None:
    since = time.process_time()
    bench.ask(delay_id="weekly", delay_to="orders", delay_cron="* * * * *", delay_zone="Europe/Berlin", delay_count="9")
    for _ in range(20):
        bench.command("pause", "weekly", delay_if_due=str(lock))

    assert time.process_time() - since < 2  # some milliseconds; to count up to the year 9892 took 0.5 s each time


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
def test_of_many_that_were_missed_the_last_ones_are_caught_up_with(
    tmp_path: Path, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.steps.occurrences.MOST_MISSED", 5)
    bench = Workbench(tmp_path / "few.db")
    bench.ask(delay_id="old", delay_to="orders", delay_at="000000060000", delay_misfire="catch-up", **said)
    dues = []
    for _ in range(7):
        row = bench.claim("old")
        dues.append(keys.due_of(row))
        bench.run(bench.delivered(row))

    assert dues == [MINUTE, *(NOW - number * MINUTE for number in (4, 3, 2, 1, 0)), NOW + MINUTE]
    [skipped] = [event for event in bench.events if event["event"] == "skipped"]
    assert (skipped["reason"], skipped["count"], skipped["due"]) == ("missed", NOW // MINUTE - 6, 2 * MINUTE)
    bench.assert_balanced()
    bench.close()


@pytest.mark.parametrize(
    "rule",
    [
        Rule(1_000, None, 0, misfire="catch-up"),
        Rule(7_777, None, 123, misfire="catch-up"),
        Rule(None, "* * * * * *", misfire="catch-up"),
        Rule(None, "*/7 3,9 * * 1-5", zone="Europe/Berlin", misfire="catch-up"),
        Rule(None, "0 0 29 2 *", misfire="catch-up"),
    ],
)
@pytest.mark.parametrize("most", [1, 3, 12])
def test_the_remaining_count_is_exact(rule: Rule, most: int) -> None:
    rest = Plan(rule, 0, None).latest(NOW, most)

    assert rest.until(NOW) == most
    assert rest.latest(NOW, most) == rest
    assert Plan(rule, NOW - 5_000, None).latest(NOW, 10**6) == Plan(rule, NOW - 5_000, None)


def test_the_remaining_count_decreases_with_skipped_times() -> None:
    rest = Plan(Rule(1_000, None, 0, misfire="catch-up", count=1_000), 0, 900).latest(900_000, 10)

    assert (rest.after_ms // 1_000, rest.left) == (890, 10)


@pytest.mark.parametrize("rule", [Rule(60_000, None, 0, count=100_000), Rule(None, "* * * * *", count=100_000)])
def test_of_a_series_that_has_ended_by_its_count_the_last_ones_before_that_are_left(rule: Rule) -> None:
    rest = Plan(rule, 0, 99_999).latest(NOW, 10)

    assert (rest.first(), rest.left) == (99_990 * MINUTE, 10)
    assert Plan(rule, 0, 10).latest(NOW, 10) == Plan(rule, 0, 10)


# a series that is requested again -------------------------------------------------------------------------------------
AGAIN = [
    {"delay_every": "PT1M"},
    {"delay_every": "PT1M", "delay_at": str(NOW + MINUTE)},
    {"delay_every": "PT1M", "delay_at": str(NOW - 10 * MINUTE)},
    {"delay_cron": "* * * * *"},
]


def ask_again(bench: Workbench, said: dict[str, str], **more: str) -> str:
    record = bench.ask(delay_id="weekly", delay_to="orders", delay_misfire="catch-up", **said, **more)
    return f"{record.topic}-{record.partition}-{record.offset}"


@pytest.mark.parametrize("said", AGAIN)
def test_due_or_missed_occurrences_survive_a_repeated_request(bench: Workbench, said: dict[str, str]) -> None:
    ask_again(bench, said)
    rest(bench)
    done = bench.now_ms
    bench.now_ms = NOW + 5 * MINUTE + 20_000
    source = ask_again(bench, said, user="new")

    assert rest(bench) == list(range((done - NOW) // MINUTE + 1, 6))
    assert bench.events[-1]["source"] == source
    assert bench.pending() == {"weekly": NOW + 6 * MINUTE}


@pytest.mark.parametrize("said", AGAIN)
def test_a_series_that_is_requested_again_keeps_its_times(bench: Workbench, said: dict[str, str]) -> None:
    ask_again(bench, said)
    rest(bench)
    for _ in range(3):
        bench.now_ms += 20_000
        ask_again(bench, said)
        rest(bench)

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}
    assert {event["event"] for event in bench.events} <= {"accepted", "replaced", "delivered"}


@pytest.mark.parametrize("said", AGAIN)
def test_an_occurrence_in_flight_is_not_lost_when_its_series_is_requested_again(
    bench: Workbench, said: dict[str, str]
) -> None:
    ask_again(bench, said)
    rest(bench)
    first = bench.pending()["weekly"]
    bench.now_ms = first + 2 * MINUTE
    row = bench.claim("weekly")
    ask_again(bench, said)
    assert bench.pending() == {"weekly": first + MINUTE}
    bench.run(Unsent(row))
    assert bench.pending() == {"weekly": first}
    row = bench.claim("weekly")
    ask_again(bench, said)
    bench.run(bench.delivered(row))

    assert rest(bench) == [(first - NOW) // MINUTE + 1, (first - NOW) // MINUTE + 2]


@pytest.mark.parametrize("said", AGAIN)
@pytest.mark.parametrize("restarts", [False, True])
def test_an_occurrence_due_after_a_repeated_request_that_is_read_late_is_not_lost(
    bench: Workbench,
    said: dict[str, str],
    restarts: bool,  # noqa: FBT001
) -> None:
    ask_again(bench, said)
    rest(bench)
    due = bench.pending()["weekly"]
    bench.now_ms = due + 2 * MINUTE + 5_000
    row = bench.claim("weekly")
    bench.ask(due - 20_000, delay_id="weekly", delay_to="orders", delay_misfire="catch-up", **said)
    if restarts:
        bench.open_again()
        bench.claim_row(row)
    bench.run(Unsent(row))

    first = (due - NOW) // MINUTE
    assert rest(bench) == [first, first + 1, first + 2]


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
def test_an_occurrence_before_the_time_that_a_request_asks_for_does_not_come_if_it_was_not_sent(
    bench: Workbench, said: dict[str, str]
) -> None:
    ask_again(bench, said)
    row = bench.claim("weekly")
    bench.now_ms = NOW + 3 * MINUTE
    from_ms = str(NOW + 2 * MINUTE)
    bench.ask(
        NOW + 30_000, delay_id="weekly", delay_to="orders", delay_misfire="catch-up", **{**said, "delay_at": from_ms}
    )
    bench.run(Unsent(row))

    assert rest(bench) == [2, 3]


@pytest.mark.parametrize("count", [{}, {"delay_count": "1"}])
@pytest.mark.parametrize("later_is_sent", [True, False])
def test_an_unsent_occurrence_comes_after_the_one_that_is_in_flight(
    bench: Workbench,
    count: dict[str, str],
    later_is_sent: bool,  # noqa: FBT001
) -> None:
    said = {"delay_every": "PT1M", **count}
    ask_again(bench, said)
    bench.now_ms = NOW + 2 * MINUTE
    row = bench.claim("weekly")
    ask_again(bench, said)
    later = bench.claim("weekly")
    bench.run(Unsent(row), bench.delivered(later) if later_is_sent else Unsent(later))

    assert rest(bench) == ([1] if later_is_sent else [1, 2])
    assert bench.pending() == ({} if count else {"weekly": NOW + 3 * MINUTE})


def test_an_unsent_occurrence_comes_after_the_one_that_was_sent_in_between(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 3 * MINUTE
    row = bench.claim("weekly")
    ask_again(bench, {"delay_every": "PT1M"})
    deliver(bench)
    bench.run(Unsent(row))

    assert rest(bench) == [1, 3]


def test_occurrences_skipped_during_a_delivery_count_once(bench: Workbench) -> None:
    said = {"delay_id": "weekly", "delay_to": "orders", "delay_every": "PT1M", "delay_count": "20"}
    bench.ask(**said)
    row = bench.claim("weekly")
    bench.now_ms = NOW + 10 * MINUTE
    bench.ask(**said)
    bench.run(Unsent(row))
    rest(bench)
    while bench.pending():
        deliver(bench)

    assert skipped(bench) == [("missed", 2, 8)]
    assert bench.events[-1]["due"] == NOW + 21 * MINUTE  # twenty minutes after the occurrence in flight


@pytest.mark.parametrize("sent", [True, False])
def test_an_extra_occurrence_in_flight_does_not_count_when_its_series_is_requested_again(
    bench: Workbench,
    sent: bool,  # noqa: FBT001
) -> None:
    said = {"delay_every": "PT1M", "delay_count": "3"}
    ask_again(bench, said)
    bench.command("deliver-now", "weekly")
    row = bench.claim("weekly")
    ask_again(bench, said)
    bench.run(bench.delivered(row) if sent else Unsent(row))
    bench.now_ms = NOW + 30 * MINUTE

    assert rest(bench) == ([] if sent else [0]) + [1, 2, 3]
    assert bench.pending() == {}


def test_a_series_that_is_requested_again_starts_to_count_again(bench: Workbench) -> None:
    said = {"delay_every": "PT1M", "delay_count": "3"}
    ask_again(bench, said)
    bench.now_ms = NOW + 2 * MINUTE + 500
    ask_again(bench, said)
    assert rest(bench) == [1, 2]
    bench.now_ms = NOW + 9 * MINUTE
    row = bench.claim("weekly")
    ask_again(bench, said)
    bench.run(Unsent(row))

    assert rest(bench) == [3, 4, 5, 6]  # the occurrence in flight belongs to the earlier request
    assert bench.pending() == {}


def test_a_series_that_is_requested_again_with_another_schedule_starts_again(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 5 * MINUTE + 20_000
    ask_again(bench, {"delay_every": "PT2M"})
    assert bench.pending() == {"weekly": bench.now_ms + 2 * MINUTE}
    for at in (bench.now_ms + 1, bench.now_ms - 1_000):
        ask_again(bench, {"delay_every": "PT2M", "delay_at": str(at)})
        assert bench.pending() == {"weekly": at}


def test_a_series_that_is_requested_again_with_a_later_start_waits_for_it(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 2 * MINUTE + 20_000
    ask_again(bench, {"delay_every": "PT1M", "delay_at": str(NOW + 5 * MINUTE)})
    assert rest(bench) == [1, 2]
    assert bench.pending() == {"weekly": NOW + 5 * MINUTE}


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
def test_a_repeated_request_by_a_clock_that_is_behind_does_not_repeat_an_occurrence(
    bench: Workbench, said: dict[str, str]
) -> None:
    said |= {"delay_at": str(NOW + MINUTE)}
    ask_again(bench, said)
    deliver(bench)
    bench.ask(bench.now_ms - 500, delay_id="weekly", delay_to="orders", delay_misfire="catch-up", **said)

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
def test_a_series_that_has_not_started_starts_earlier_if_a_repeated_request_says_so(
    bench: Workbench, said: dict[str, str]
) -> None:
    ask_again(bench, {**said, "delay_at": str(NOW + 5 * MINUTE)})
    ask_again(bench, {**said, "delay_at": str(NOW + 2 * MINUTE)})

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


def test_a_paused_series_continues_when_it_is_requested_again(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 2 * MINUTE + 20_000
    bench.command("pause", "weekly")
    bench.now_ms = NOW + 4 * MINUTE + 20_000
    ask_again(bench, {"delay_every": "PT1M"})

    assert rest(bench) == [1, 2]
    assert skipped(bench) == [("paused", 3, 2)]
    assert bench.pending() == {"weekly": NOW + 5 * MINUTE}


def test_a_command_that_is_later_than_the_request_that_comes_late_holds(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 5 * MINUTE
    bench.command("pause", "weekly")
    bench.late(2, NOW + 3 * MINUTE, delay_id="weekly", delay_to="orders", delay_cron="* * * * *")

    assert bench.pending() == {"weekly": PAUSED_MS}


@pytest.mark.parametrize("said", [{"delay_every": "PT1M"}, {"delay_cron": "* * * * *"}])
@pytest.mark.parametrize("jitter", ["50000", "PT10M"])
def test_an_occurrence_whose_jitter_ends_after_a_repeated_request_is_not_lost(
    bench: Workbench, said: dict[str, str], jitter: str
) -> None:
    said |= {"delay_jitter": jitter}
    ask_again(bench, said)
    due = bench.pending()["weekly"]
    bench.now_ms = due - 1
    assert bench.now_ms > NOW + MINUTE
    ask_again(bench, said)
    assert bench.pending() == {"weekly": due}
    ask_again(bench, {**said, "delay_jitter": "0"})
    assert bench.pending() == {"weekly": NOW + MINUTE}
    ask_again(bench, {**said, "delay_at": str(NOW + 5 * MINUTE), "delay_jitter": "0"})

    assert rest(bench) == [1]
    assert bench.pending() == {"weekly": NOW + 5 * MINUTE}


@pytest.mark.parametrize("said", AGAIN)
def test_an_occurrence_postponed_before_a_repeated_request_is_not_lost(bench: Workbench, said: dict[str, str]) -> None:
    ask_again(bench, said)
    rest(bench)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    bench.now_ms = NOW + 5 * MINUTE
    ask_again(bench, said)
    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}
    bench.command("pause", "weekly")
    bench.now_ms += 1_000
    ask_again(bench, said)

    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}


def test_a_moved_occurrence_that_is_planned_after_a_repeated_request_is_due_as_planned(
    bench: Workbench,
) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    bench.now_ms += 1_000
    ask_again(bench, {"delay_every": "PT1M"})

    assert bench.pending() == {"weekly": NOW + MINUTE}


def test_a_postponed_extra_occurrence_is_not_lost_by_a_repeated_request(bench: Workbench) -> None:
    said = {"delay_every": "PT1M", "delay_count": "1"}
    ask_again(bench, said)
    bench.command("deliver-now", "weekly")
    bench.command("reschedule", "weekly", delay_at=str(NOW + 30_000))
    ask_again(bench, said)
    bench.now_ms = NOW + MINUTE

    assert rest(bench) == [0, 1]
    assert bench.pending() == {}


def test_a_time_that_is_one_interval_ahead_is_a_time(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 2 * MINUTE + 20_000
    ask_again(bench, {"delay_every": "PT1M", "delay_after": "PT1M"})
    assert bench.pending() == {"weekly": bench.now_ms + MINUTE}  # other times, so another schedule
    bench.now_ms += MINUTE
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms += 5_000
    ask_again(bench, {"delay_every": "PT1M"})

    assert bench.pending() == {"weekly": bench.now_ms - 5_000}


def test_an_interval_that_comes_through_another_partition_or_a_gateway_keeps_counting(bench: Workbench) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.now_ms = NOW + 2 * MINUTE + 20_000
    said = {"delay_id": "weekly", "delay_to": "orders", "delay_every": "PT1M", "delay_misfire": "catch-up"}
    bench.late(2, bench.now_ms, delay_asked_at=str(bench.now_ms - 5_000), **said)
    bench.now_ms += 1_000
    asked_ms = bench.now_ms - 500
    bench.ask(delay_asked_at=str(asked_ms), delay_at=str(asked_ms + MINUTE), **said)

    assert rest(bench) == [1, 2]
    assert bench.pending() == {"weekly": NOW + 3 * MINUTE}


def test_a_cron_time_that_was_brought_forward_does_not_occur_again_after_a_repeated_request(
    bench: Workbench,
) -> None:
    said = {"delay_cron": "* * * * *"}
    ask_again(bench, said)
    bench.command("reschedule", "weekly", delay_at=str(NOW + 30_000))
    deliver(bench)
    bench.now_ms += 1_000
    ask_again(bench, said)

    assert bench.pending() == {"weekly": NOW + 2 * MINUTE}


def test_a_late_repeated_request_keeps_earlier_moves(
    bench: Workbench,
) -> None:
    ask_again(bench, {"delay_every": "PT1M"})
    bench.command("reschedule", "weekly", delay_at=str(NOW + 10 * MINUTE))
    bench.now_ms = NOW + 3 * MINUTE
    bench.command("pause", "weekly")
    bench.late(2, NOW + 2 * MINUTE, delay_id="weekly", delay_to="orders", delay_every="PT1M")
    assert bench.pending() == {"weekly": PAUSED_MS}
    bench.command("resume", "weekly")

    assert bench.pending() == {"weekly": NOW + 10 * MINUTE}
