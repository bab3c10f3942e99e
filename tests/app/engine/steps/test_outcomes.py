"""The outcomes of rows that are being sent, and of commands that arrive in the meantime."""

from typing import Any

import pytest

from app.engine.steps.outcomes import Dropped, Rejected, Unsent, reason_of
from app.kafka.errors import BatchRejected, GaveUp, InvalidRecord, NotAuthorised, SendError, TooLarge, TopicUnknown
from app.kafka.fast_path import in_python
from punctual.contract.request import Reason
from tests.app.workbench import Workbench, source
from tests.kernel.built import take_path
from tests.punctual.contract.records import NOW
from tests.tables.rows import assert_sound

SOON, LATER = NOW + 60_000, NOW + 120_000


def test_a_delivery_ends_the_message_and_says_where_and_how_late(bench: Workbench) -> None:
    first, second = bench.schedule("a", NOW - 7), bench.schedule("b", NOW - 5)
    rows = bench.claim("a"), bench.claim("b")
    bench.now_ms += 3
    bench.run(bench.delivered(*rows, sent_ms=NOW))

    assert bench.pending() == {}
    assert bench.events[2:] == [
        {
            "event": "delivered",
            "id": "a",
            "at": NOW + 3,
            "source": first,
            "due": NOW - 7,
            "to": "orders",
            "late": 7,
            "delivered": "orders-3-0",
        },
        {
            "event": "delivered",
            "id": "b",
            "at": NOW + 3,
            "source": second,
            "due": NOW - 5,
            "to": "orders",
            "late": 5,
            "delivered": "orders-3-1",
        },
    ]
    assert_sound(bench.store)


def _half_plain(bench: Workbench, count: int) -> list[str]:
    """Schedule messages, every second one with a dedupe window of its own; return their ids."""
    ids = [f"id-{number:03}" for number in range(count)]
    for number, id_ in enumerate(ids):
        bench.schedule(id_, NOW, **({"delay_dedupe": "PT1H"} if number % 2 else {}))
    return ids


def test_a_batch_may_have_any_number_of_rows_that_are_not_plain_among_plain_ones(bench: Workbench) -> None:
    ids = _half_plain(bench, 200)
    bench.run(bench.delivered(*map(bench.claim_plain, ids)))

    assert bench.pending() == {}
    places = {event["id"]: event["delivered"] for event in bench.events if event["event"] == "delivered"}
    assert places == {id_: f"orders-3-{number}" for number, id_ in enumerate(ids)}
    assert_sound(bench.store)


def test_the_fewer_plain_messages_a_batch_has_the_fewer_rows_are_examined_in_vain(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, delivered = list[int](), in_python.delivered

    def counted(rows: list[bytes], begin: int, end: int, *rest: Any) -> Any:
        looked.append(min(end, len(rows)) - begin)
        return delivered(rows, begin, end, *rest)

    take_path(monkeypatch, native=False)
    monkeypatch.setattr(in_python, "delivered", counted)
    ids = _half_plain(bench, 400)
    bench.memory.watermark_ms = NOW + 1
    bench.run(bench.delivered(*map(bench.claim, ids)))

    assert bench.pending() == {}
    assert sum(looked) < 20 * len(ids)


@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_command_for_a_message_that_was_sent_in_between_came_too_late(bench: Workbench, op: str) -> None:
    asked = bench.schedule("a", NOW)
    row = bench.claim("a")
    by = bench.command(op, "a", delay_at=str(LATER))

    assert bench.pending() == {"a": NOW}
    bench.run(bench.delivered(row))
    assert bench.pending() == {}
    assert bench.told()[1:] == [("delivered", asked, None), ("conflict", asked, by)]


@pytest.mark.parametrize(
    ("op", "event", "pending"),
    [
        ("cancel", "cancelled", {}),
        ("reschedule", "rescheduled", {"a": LATER}),
        ("deliver-now", "rescheduled", {"a": NOW - 5}),
    ],
)
def test_a_command_on_a_message_that_was_not_sent_applies(
    bench: Workbench, op: str, event: str, pending: dict[str, int]
) -> None:
    asked = bench.schedule("a", NOW - 5)
    row = bench.claim("a")
    by = bench.command(op, "a", delay_at=str(LATER))
    bench.run(Unsent(row))

    assert bench.told()[1:] == [(event, asked, by)]
    assert bench.pending() == pending
    assert bench.claims == {}
    assert_sound(bench.store)


def test_commands_that_came_in_between_apply_in_their_order(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW)
    row = bench.claim("a")
    by = [
        bench.command("reschedule", "a", delay_at=str(LATER)),
        bench.command("reschedule", "a", delay_at=str(SOON)),
        bench.command("cancel", "a"),
        bench.command("deliver-now", "a"),
        bench.command("cancel", "a"),
    ]
    bench.run(Unsent(row))

    assert bench.told()[1:] == [
        ("rescheduled", asked, by[0]),
        ("rescheduled", asked, by[1]),
        ("cancelled", asked, by[2]),
        ("unknown", by[3], by[3]),
        ("unknown", by[4], by[4]),
    ]
    assert bench.pending() == {}
    assert_sound(bench.store)


def test_a_moved_message_bears_no_commands_any_more(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    row = bench.claim("a")
    bench.command("reschedule", "a", delay_at=str(LATER))
    bench.run(Unsent(row))

    assert [entry.commands for _, entry in bench.store.rows()] == [()]


@pytest.mark.parametrize("sent", [True, False])
def test_a_message_that_is_replaced_while_it_is_sent_has_one_ending_and_the_new_one_waits(
    bench: Workbench, *, sent: bool
) -> None:
    first = bench.schedule("a", NOW)
    row = bench.claim("a")
    second = bench.schedule("a", LATER)

    assert bench.pending() == {"a": LATER}
    assert bench.store.counts.total == 2
    bench.run(bench.delivered(row) if sent else Unsent(row))
    assert bench.pending() == {"a": LATER}
    ending = ("delivered", first, None) if sent else ("replaced", first, second)
    assert bench.told() == [("accepted", first, None), ("accepted", second, None), ending]
    assert_sound(bench.store)


@pytest.mark.parametrize("sent", [True, False])
def test_a_message_may_be_cancelled_and_then_replaced_while_it_is_sent(bench: Workbench, *, sent: bool) -> None:
    first = bench.schedule("a", NOW)
    row = bench.claim("a")
    cancel = bench.command("cancel", "a")
    bench.schedule("a", LATER)
    later = bench.command("reschedule", "a", delay_at=str(SOON))
    bench.run(bench.delivered(row) if sent else Unsent(row))

    assert bench.pending() == {"a": SOON}
    second = "delay-requests-0-2"
    endings = [("delivered", first, None), ("conflict", first, cancel)] if sent else [("cancelled", first, cancel)]
    assert bench.told()[1:] == [("accepted", second, None), ("rescheduled", second, later), *endings]
    assert_sound(bench.store)


def test_an_id_is_unknown_when_the_message_that_replaced_it_is_cancelled_in_the_same_step(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    row = bench.claim("a")
    bench.read(
        [
            bench.log.record(delay_id="a", delay_to="orders", delay_at=str(LATER)),
            bench.log.record(delay_op="cancel", delay_id="a"),
        ]
    )
    bench.command("deliver-now", "a")

    assert bench.events[-1]["event"] == "unknown"
    bench.run(bench.delivered(row))
    assert bench.store.counts.total == 0
    assert_sound(bench.store)


def test_an_id_is_unknown_when_the_message_that_replaced_it_is_dropped_in_the_same_step(bench: Workbench) -> None:
    first = bench.schedule("a", NOW)
    old = bench.claim("a")
    second = bench.schedule("a", NOW - 60_000, delay_max_late="1", delay_if_late="drop")
    new = bench.claim("a")
    by = bench.log.record(bench.now_ms, delay_op="cancel", delay_id="a")
    bench.run(Dropped(new, 60_000), Unsent(old), by)

    assert bench.told()[2:] == [
        ("dropped", second, None),
        ("replaced", first, second),
        ("unknown", source(by), source(by)),
    ]
    assert bench.pending() == {}
    bench.assert_balanced()
    assert_sound(bench.store)


def test_outcomes_and_requests_of_one_step_see_each_other(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    row = bench.claim("a")
    bench.run(
        bench.delivered(row),
        bench.log.record(delay_op="cancel", delay_id="a"),
        bench.log.record(NOW + 1, delay_id="a", delay_to="orders", delay_at=str(SOON)),
    )

    assert [event["event"] for event in bench.events] == ["accepted", "delivered", "unknown", "accepted"]
    assert bench.pending() == {"a": SOON}
    assert_sound(bench.store)


def test_a_command_that_a_crash_left_on_a_row_waits_for_the_row_to_be_dealt_with(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW)
    row = bench.claim("a")
    bench.command("reschedule", "a", delay_at=str(LATER))
    bench.close()
    bench.open()
    by = bench.command("cancel", "a")
    bench.claim_row(row)
    bench.run(Unsent(row))

    assert bench.told()[-1] == ("cancelled", asked, by)
    assert bench.pending() == {}


def test_a_message_that_is_too_late_for_its_sender_is_dropped(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW - 50, delay_max_late="10", delay_if_late="drop")
    bench.run(Dropped(bench.claim("a"), 47))  # at the look; the clock may have been set since

    assert bench.events[-1] == {
        "event": "dropped",
        "id": "a",
        "at": NOW,
        "source": asked,
        "due": NOW - 50,
        "to": "orders",
        "late": 47,
        "reason": "too-late",
    }
    assert bench.pending() == {}


def test_a_message_that_cannot_be_delivered_becomes_a_dead_letter(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW, user="1")
    bench.run(Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone."))

    assert bench.told()[-1] == ("rejected", asked, None)
    assert bench.events[-1]["reason"] == "unknown-topic"
    (dead_letter,) = bench.sends
    assert (dead_letter.topic, dead_letter.key, dead_letter.value) == ("delay-dead-letters", b"k", b"v")
    assert dict(dead_letter.headers)["delay-error"] == b"It is gone."


@pytest.mark.parametrize("op", ["cancel", "reschedule"])
def test_a_command_comes_before_a_rejection_for_the_message_was_not_sent(bench: Workbench, op: str) -> None:
    bench.schedule("a", NOW)
    row = bench.claim("a")
    by = bench.command(op, "a", delay_at=str(LATER))
    bench.run(Rejected(row, Reason.UNDELIVERABLE, "It failed for long."))

    assert bench.sends == []
    assert bench.events[-1]["by"] == by


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TopicUnknown("orders", 1), "unknown-topic"),
        (TooLarge("orders"), "too-large"),
        (NotAuthorised("orders"), "not-allowed"),
        (InvalidRecord("orders"), "invalid-record"),
        (GaveUp("orders", 1), "undeliverable"),
        (BatchRejected("orders", "InvalidTimestampError"), "undeliverable"),
    ],
)
def test_each_way_to_fail_has_its_reason_code_and_says_what_to_do(error: SendError, reason: str) -> None:
    assert reason_of(error) == reason
    assert "orders" in str(error)
    assert str(error).count(". ") >= 1


# deliveries that are remembered -------------------------------------------------------------------------------------
def test_the_same_id_with_the_same_due_time_is_a_duplicate_within_its_window(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    bench.run(bench.delivered(bench.claim("a")))
    again = bench.schedule("a", NOW)

    assert bench.events[-1] == {
        "event": "duplicate",
        "id": "a",
        "at": NOW,
        "source": again,
        "due": NOW,
        "to": "orders",
    }
    assert bench.pending() == {}


def test_another_due_time_is_another_message(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    bench.run(bench.delivered(bench.claim("a")))
    bench.schedule("a", NOW + 1)

    assert bench.pending() == {"a": NOW + 1}


def test_a_duplicate_does_not_replace_the_pending_message_of_its_id(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    bench.run(bench.delivered(bench.claim("a")))
    bench.schedule("a", LATER)
    again = bench.schedule("a", NOW)

    assert bench.told()[-1] == ("duplicate", again, None)
    assert bench.pending() == {"a": LATER}


def test_a_delivery_is_forgotten_after_its_window(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    bench.run(bench.delivered(bench.claim("a")))
    bench.now_ms += 60_000
    bench.schedule("a", NOW)

    assert bench.pending() == {"a": NOW}


def test_without_a_window_no_id_is_remembered(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    bench.run(bench.delivered(bench.claim("a")))
    bench.schedule("a", NOW)

    assert bench.pending() == {"a": NOW}
    assert bench.store.delivered.count == 0


def test_a_delivery_and_its_duplicate_may_come_in_one_step(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    row = bench.claim("a")
    record = bench.log.record(delay_id="a", delay_to="orders", delay_at=str(NOW))
    bench.run(bench.delivered(row), record)

    assert bench.told()[-1] == ("duplicate", source(record), None)


def test_a_request_that_is_repeated_while_its_message_is_being_sent_is_a_duplicate(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT1M")
    row = bench.claim("a")
    again = bench.schedule("a", NOW, delay_dedupe="PT1M")
    other = bench.schedule("a", NOW, delay_dedupe="PT1M", user="another")
    bench.run(bench.delivered(row))

    assert ("duplicate", again, None) in bench.told()
    assert ("accepted", other, None) in bench.told()
