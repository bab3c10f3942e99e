"""The last order of an id wins, whichever partitions they came through (records.md#ordering)."""

import contextlib
from pathlib import Path

import pytest

from app.engine.steps.outcomes import Unsent
from tables import RecordStamp
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW
from tests.tables.rows import image

SOON, LATER, LATEST = NOW + 60_000, NOW + 120_000, NOW + 180_000


def schedule(bench: Workbench, offset: int, stamp: int, due: int, **said: str) -> None:
    """Have a request arrive that was made at `stamp` in partition 2."""
    bench.run(bench.from_elsewhere(offset, stamp, delay_id="a", delay_to="orders", delay_at=str(due), **said))


def command(bench: Workbench, offset: int, stamp: int, op: str, **said: str) -> None:
    """Have a command arrive that was given at `stamp` in partition 2."""
    bench.run(bench.from_elsewhere(offset, stamp, delay_op=op, delay_id="a", **said))


def late(bench: Workbench, stamp: int, **said: str) -> str:
    """Have an order of partition 1 arrive now that was given at `stamp`; return its source."""
    return bench.late(1, stamp, delay_id="a", **said)


# late commands for a pending message ---------------------------------------------------------------------------------
def test_a_request_older_than_the_content_is_accepted_and_at_once_replaced(bench: Workbench) -> None:
    newer = bench.schedule("a", SOON)
    older = late(bench, NOW - 1, delay_to="orders", delay_at=str(LATER))

    assert bench.pending() == {"a": SOON}
    assert bench.told()[1:] == [("accepted", older, None), ("replaced", older, newer)]


def test_a_cancel_older_than_the_content_is_stale(bench: Workbench) -> None:
    bench.schedule("a", SOON)
    by = late(bench, NOW - 1, delay_op="cancel")

    assert bench.pending() == {"a": SOON}
    assert bench.told()[1:] == [("stale", "delay-requests-0-0", by)]


@pytest.mark.parametrize("op", ["reschedule", "deliver-now"])
def test_a_command_that_moves_it_is_stale_if_it_is_older_than_the_last_one(bench: Workbench, op: str) -> None:
    schedule(bench, 0, NOW - 10, SOON)
    bench.command("reschedule", "a", delay_at=str(LATER))
    at = {"delay_at": str(LATEST)} if op == "reschedule" else {}
    late(bench, NOW - 5, delay_op=op, **at)

    assert bench.pending() == {"a": LATER}
    assert bench.told()[-1][0] == "stale"


def test_a_request_between_content_and_due_time_changes_the_content_alone(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, SOON, user="old")
    by = bench.command("reschedule", "a", delay_at=str(LATER))
    between = late(bench, NOW - 5, delay_to="orders", delay_at=str(LATEST), user="new")

    assert bench.pending() == {"a": LATER}
    ((_, entry),) = bench.store.rows()
    assert entry.headers == [("user", b"new")]
    assert (entry.stamp_ms, entry.moved) == (NOW - 5, RecordStamp(NOW, by))
    assert bench.told()[-3:] == [
        ("accepted", between, None),
        ("replaced", "delay-requests-2-0", between),
        ("rescheduled", between, by),
    ]


def test_a_cancel_between_them_cancels_and_what_moved_it_waits_for_an_older_request(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, SOON)
    bench.command("reschedule", "a", delay_at=str(LATER))
    late(bench, NOW - 5, delay_op="cancel")
    assert bench.pending() == {}
    late(bench, NOW - 3, delay_to="orders", delay_at=str(LATEST))

    assert bench.pending() == {"a": LATER}


# commands that come before their message -----------------------------------------------------------------------------
@pytest.mark.parametrize("op", ["reschedule", "deliver-now"])
def test_a_command_that_comes_before_its_message_moves_it(bench: Workbench, op: str) -> None:
    at = {"delay_at": str(LATER)} if op == "reschedule" else {}
    by = bench.command(op, "a", **at)
    asked = late(bench, NOW - 1, delay_to="orders", delay_at=str(SOON))

    assert bench.pending() == {"a": LATER if op == "reschedule" else NOW}
    assert bench.told() == [("unknown", by, by), ("accepted", asked, None), ("rescheduled", asked, by)]


def test_of_several_the_last_one_counts_in_whatever_order_they_come(bench: Workbench) -> None:
    bench.command("reschedule", "a", delay_at=str(LATEST))
    late(bench, NOW - 2, delay_op="reschedule", delay_at=str(LATER))
    late(bench, NOW - 5, delay_to="orders", delay_at=str(SOON))

    assert bench.pending() == {"a": LATEST}


def test_a_command_does_not_move_a_request_that_was_made_after_it(bench: Workbench) -> None:
    command(bench, 0, NOW - 5, "reschedule", delay_at=str(LATER))
    bench.schedule("a", SOON)

    assert bench.pending() == {"a": SOON}


def test_a_cancel_replaces_earlier_commands(bench: Workbench) -> None:
    command(bench, 0, NOW - 5, "reschedule", delay_at=str(LATER))
    by = bench.command("cancel", "a")
    older = late(bench, NOW - 3, delay_to="orders", delay_at=str(SOON))

    assert bench.pending() == {}
    assert bench.told()[-1] == ("cancelled", older, by)
    mark = bench.store.commands.get("a")
    assert mark is not None
    assert mark.commands == ()


def test_a_condition_is_judged_for_the_message_that_comes(bench: Workbench) -> None:
    by = bench.command("reschedule", "a", delay_at=str(LATEST), delay_if_due=str(LATER))
    first = late(bench, NOW - 3, delay_to="orders", delay_at=str(SOON))
    second = late(bench, NOW - 2, delay_to="orders", delay_at=str(LATER))

    assert bench.pending() == {"a": LATEST}
    assert ("conflict", first, by) in bench.told()
    assert ("rescheduled", second, by) in bench.told()


def test_commands_with_conditions_are_remembered_up_to_a_number(bench: Workbench) -> None:
    for due in range(50):
        bench.command("cancel", "a", delay_if_due=str(SOON + due))
    mark = bench.store.commands.get("a")
    assert mark is not None
    assert len(mark.commands) == 8


# after the end -------------------------------------------------------------------------------------------------------
def test_a_request_older_than_the_delivered_message_is_not_delivered_too(bench: Workbench) -> None:
    newer = bench.schedule("a", NOW)
    bench.run(bench.delivered(bench.claim("a")))
    older = late(bench, NOW - 1, delay_to="orders", delay_at=str(SOON))

    assert bench.pending() == {}
    assert bench.told()[-2:] == [("accepted", older, None), ("replaced", older, newer)]


def test_a_younger_one_is_a_message_of_its_own(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 5, NOW)
    bench.run(bench.delivered(bench.claim("a")))
    bench.schedule("a", SOON)

    assert bench.pending() == {"a": SOON}


def test_a_request_older_than_the_cancel_of_the_pending_message_is_cancelled(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 5, SOON)
    by = bench.command("cancel", "a")
    late(bench, NOW - 3, delay_to="orders", delay_at=str(LATER))

    assert bench.pending() == {}
    assert bench.told()[-1] == ("cancelled", "delay-requests-1-0", by)


def test_a_command_older_than_what_ended_the_message_is_stale(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    bench.run(bench.delivered(bench.claim("a")))
    by = late(bench, NOW - 1, delay_op="cancel")

    assert bench.told()[-1] == ("stale", by, by)


def test_an_ended_message_leaves_no_trace_if_no_older_record_can_come(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    bench.memory.watermark_ms = NOW + 1
    bench.run(bench.delivered(bench.claim("a")))

    assert bench.store.commands.count == 0


def test_it_leaves_one_as_long_as_something_may(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    bench.memory.watermark_ms = NOW
    bench.run(bench.delivered(bench.claim("a")))

    assert bench.store.commands.count == 1


def test_the_trace_is_removed_when_no_older_record_can_come_and_not_before(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    bench.memory.watermark_ms = NOW
    bench.run(bench.delivered(bench.claim("a")))
    bench.now_ms = NOW + 3_000
    assert bench.memory.spent(10) == []

    bench.memory.watermark_ms = NOW + 501
    assert bench.memory.spent(10) == ["a"]


def test_one_with_a_stamp_ahead_of_when_it_ended_is_not(bench: Workbench) -> None:
    schedule(bench, 0, NOW + 5_000, NOW)
    bench.run(bench.delivered(bench.claim("a")))
    bench.memory.watermark_ms = NOW + 4_000

    assert bench.memory.spent(10) == []


def test_a_cancel_and_a_command_that_waits_are_never_spent(bench: Workbench) -> None:
    bench.command("cancel", "a")
    bench.command("reschedule", "b", delay_at=str(LATER))
    bench.memory.watermark_ms = NOW + 60_000

    assert bench.memory.spent(10) == []
    assert bench.store.commands.count == 2


def test_an_id_of_punctuals_own_leaves_none(bench: Workbench) -> None:
    record = bench.ask(delay_to="orders", delay_at=str(NOW))
    bench.run(bench.delivered(bench.claim(source(record))))

    assert bench.store.commands.count == 0


@pytest.mark.parametrize("first", ["request", "cancel"])
def test_whoever_names_an_id_of_punctuals_own_came_after_it_whatever_the_clocks_say(
    bench: Workbench, first: str
) -> None:
    request = bench.log.record(NOW, delay_to="orders", delay_at=str(SOON))
    cancel = bench.from_elsewhere(0, NOW - 30, delay_op="cancel", delay_id=source(request))
    bench.run(*((request, cancel) if first == "request" else (cancel, request)))

    assert bench.pending() == {}


# while it is being sent ----------------------------------------------------------------------------------------------
def test_a_request_takes_commands_along_that_are_younger(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, NOW)
    row = bench.claim("a")
    by = bench.command("reschedule", "a", delay_at=str(LATER))
    between = late(bench, NOW - 5, delay_to="orders", delay_at=str(SOON))
    assert bench.pending() == {"a": LATER}
    assert bench.told()[-1] == ("rescheduled", between, by)
    bench.run(bench.delivered(row))

    assert bench.pending() == {"a": LATER}
    assert bench.told()[-1][:2] == ("delivered", "delay-requests-2-0")


def test_a_request_older_than_a_cancel_that_waits_for_the_outcome_is_cancelled(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, NOW)
    row = bench.claim("a")
    by = bench.command("cancel", "a")
    between = late(bench, NOW - 5, delay_to="orders", delay_at=str(SOON))
    assert bench.told()[-1] == ("cancelled", between, by)
    bench.run(Unsent(row))

    assert bench.pending() == {}
    assert bench.told()[-1] == ("replaced", "delay-requests-2-0", between)


def test_commands_that_came_too_late_hold_for_an_older_request(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, NOW)
    row = bench.claim("a")
    bench.command("cancel", "a")
    bench.command("cancel", "a", delay_if_due=str(NOW))
    bench.run(bench.delivered(row))
    late(bench, NOW - 5, delay_to="orders", delay_at=str(SOON))

    assert bench.pending() == {}


def test_they_apply_in_their_order_if_it_was_not_sent(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, NOW)
    row = bench.claim("a")
    bench.command("reschedule", "a", delay_at=str(LATER))
    late(bench, NOW - 5, delay_op="cancel")
    bench.run(Unsent(row))

    assert bench.pending() == {}
    assert [event for event, _, _ in bench.told()[-2:]] == ["cancelled", "unknown"]


def test_a_repetition_is_known_while_its_message_is_being_sent(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    bench.claim("a")
    bench.now_ms += 5
    again = bench.schedule("a", NOW, delay_dedupe="PT1M")

    assert bench.told()[-1] == ("duplicate", again, None)


def test_a_series_that_is_requested_again_while_an_occurrence_is_in_flight_continues(tmp_path: Path) -> None:
    """A dedupe window is for messages that are delivered once: a series with a window counts as one without it."""
    with contextlib.closing(Workbench(tmp_path / "x.db", DELAY_PARTITIONS="1", DELAY_DEDUPE_WINDOW="PT1M")) as bench:
        said = {"delay_to": "orders", "delay_every": "60000", "delay_count": "3", "delay_at": str(NOW)}
        bench.ask(delay_id="a", **said)
        row = bench.claim("a")
        again = bench.ask(delay_id="a", **said)

        assert bench.told()[-1] == ("accepted", source(again), None)
        bench.run(bench.delivered(row))
        assert bench.pending() == {"a": NOW + 60_000}


def test_commands_on_a_row_that_is_being_sent_are_bounded(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    row = bench.claim("a")
    for number in range(100):
        bench.command("reschedule", "a", delay_at=str(SOON + number))
    assert len(bench.claims[row].commands) == 32
    bench.run(Unsent(row))

    assert bench.pending() == {"a": SOON + 99}


def test_a_cancel_is_not_passed_over_among_many_commands(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    row = bench.claim("a")
    bench.command("reschedule", "a", delay_at=str(SOON))
    bench.command("cancel", "a")
    for number in range(40):
        bench.command("reschedule", "a", delay_at=str(LATER + number))
    bench.run(Unsent(row))

    assert bench.pending() == {}
    assert "cancelled" in [event for event, _, _ in bench.told()]


def test_a_condition_is_evaluated_again_after_an_earlier_command(bench: Workbench) -> None:
    """As it is with a message that waits."""
    bench.schedule("a", NOW)
    row = bench.claim("a")
    bench.command("reschedule", "a", delay_at=str(LATER))
    by = bench.command("cancel", "a", delay_if_due=str(NOW))
    bench.run(Unsent(row))

    assert bench.pending() == {"a": LATER}
    assert bench.told()[-1][::2] == ("conflict", by)


# stamps --------------------------------------------------------------------------------------------------------------
def test_the_log_of_a_partition_decides_when_a_new_leaders_clock_is_behind(bench: Workbench) -> None:
    bench.ask(NOW + 5, delay_id="a", delay_to="orders", delay_at=str(SOON))
    bench.open_again()
    bench.ask(NOW - 500, delay_id="a", delay_to="orders", delay_at=str(LATER))

    assert bench.pending() == {"a": LATER}
    ((_, entry),) = bench.store.rows()
    assert entry.stamp_ms == NOW + 5


def test_a_timestamp_that_is_refused_does_not_count(bench: Workbench) -> None:
    bench.ask(NOW + 3_600_000, delay_id="b", delay_to="orders", delay_at=str(SOON))
    bench.schedule("a", SOON)

    ((_, entry),) = bench.store.rows()
    assert entry.stamp_ms == NOW
    assert bench.store.positions["delay-requests"].stamp_ms == NOW


def test_an_order_may_say_that_it_is_older(bench: Workbench) -> None:
    bench.schedule("a", SOON)
    bench.ask(delay_id="a", delay_to="orders", delay_at=str(LATER), delay_asked_at=str(NOW - 5))
    bench.ask(delay_op="cancel", delay_id="a", delay_asked_at=str(NOW - 5))

    assert bench.pending() == {"a": SOON}
    assert [event for event, _, _ in bench.told()] == ["accepted", "accepted", "replaced", "stale"]


def test_none_may_say_that_it_is_newer(bench: Workbench) -> None:
    late(bench, NOW - 1, delay_to="orders", delay_at=str(SOON), delay_asked_at=str(NOW + 5))
    bench.schedule("a", LATER)

    assert bench.pending() == {"a": LATER}


def test_while_delayed_records_arrive_no_position_is_claimed_as_read(bench: Workbench) -> None:
    bench.schedule("b", SOON)
    assert bench.memory.read_to(NOW) == {"delay-requests": NOW}
    bench.ask(delay_id="a", delay_to="orders", delay_at=str(LATER), delay_asked_at=str(NOW - 5))

    assert bench.memory.read_to(NOW + 599_999) == {}
    assert bench.memory.read_to(NOW + 600_000) == {"delay-requests": NOW}


def test_records_read_after_a_claim_are_newer_than_the_claim(bench: Workbench) -> None:
    bench.memory.idle("delay-requests", NOW + 50)
    assert bench.memory.read_to(NOW) == {"delay-requests": NOW + 50}
    bench.schedule("a", SOON)

    ((_, entry),) = bench.store.rows()
    assert entry.stamp_ms == NOW + 50
    assert bench.store.positions["delay-requests"].stamp_ms == NOW + 50


def test_every_trace_survives_a_restore(bench: Workbench) -> None:
    schedule(bench, 0, NOW - 10, SOON)
    bench.command("reschedule", "a", delay_at=str(LATER))
    late(bench, NOW - 5, delay_op="cancel")
    before = image(bench.store)
    changelog = list(bench.changelog)
    bench.store.wipe()
    bench.open()
    bench.store.replay(changelog, len(changelog), NOW)

    assert image(bench.store) == before
