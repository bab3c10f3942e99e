"""Markers as the worker reads them."""

from typing import Any

import pytest

from punctual.client.requests import Request
from punctual.contract import native
from punctual.contract.request import Refusal
from punctual.contract.request import Request as Asked
from punctual.queue.markers import Markers
from punctual.queue.message import Message
from tests.punctual.contract.records import NOW, FakeRecord

MARKERS = Markers("billing", "orders", "orders", 30_000, 8)

DUE = ("delay-due", b"1")
BROUGHT_BACK = [("delay-id", b"billing:orders-0-3"), DUE]


def message(*headers: tuple[str, bytes | None], attempt: int = 1) -> Message:
    keeper: Any = None
    return Message(
        keeper,
        topic="orders",
        partition=2,
        offset=17,
        timestamp=NOW,
        key=b"k",
        value=b"v",
        headers=headers,
        attempt=attempt,
        id=MARKERS.id_of("orders", 2, 17),
        deadline=0,
    )


def read(request: Request) -> Asked:
    asked = native.decode(FakeRecord(request.headers, request.key, request.value))
    assert (request.id or b"").decode() == asked.id, "it would be sent to another partition than its home"
    return asked


def test_a_start_marker_is_the_message_due_after_the_timeout_as_the_next_attempt() -> None:
    asked = read(MARKERS.start(message(("b", b"1"), ("a", None), ("b", b"2"))))

    assert (asked.op, asked.to, asked.key, asked.value, asked.due_ms) == (
        "schedule",
        "orders",
        b"k",
        b"v",
        NOW + 30_000,
    )
    assert asked.headers == [("b", b"1"), ("a", None), ("b", b"2"), ("delay-attempt", b"2")]
    assert asked.id == "billing:orders-2-17"


def test_headers_of_an_earlier_delivery_are_not_passed_on() -> None:
    delivered = [("delay-id", b"x"), ("delay-due", b"1"), ("delay-source", b"y-0-1"), ("delay-attempt", b"4")]
    asked = read(MARKERS.start(message(*delivered, attempt=4)))

    assert asked.headers == [("delay-attempt", b"5")]
    assert asked.id == "billing:orders-2-17"


def test_a_released_message_comes_back_as_the_same_attempt() -> None:
    asked = read(MARKERS.release(message(attempt=3), 0))

    assert (asked.headers, asked.due_ms) == ([("delay-attempt", b"3")], NOW)


def test_an_end_marker_cancels_and_a_later_one_reschedules_the_start_marker() -> None:
    end, later = read(MARKERS.end(message())), read(MARKERS.later(message(), 500))

    assert (end.op, end.id) == ("cancel", "billing:orders-2-17")
    assert (later.op, later.id, later.due_ms) == ("reschedule", "billing:orders-2-17", NOW + 500)
    assert later.jitter_ms == 0  # whatever the input's policy is


@pytest.mark.parametrize("attempt", [8, 9])
def test_a_message_after_its_last_attempt_is_refused_with_the_count_that_was_allowed(attempt: int) -> None:
    counted = message(("a", b"1"), ("delay-attempt", b"%d" % attempt), attempt=attempt)
    request = MARKERS.exhausted(counted, ValueError("no"))
    with pytest.raises(Refusal, match=r"8 attempts have failed and delay-max-attempts is 8, the last with: Val.*: no"):
        native.decode(FakeRecord(request.headers))

    assert (MARKERS.is_over(8), MARKERS.is_over(9)) == (False, True)


def test_without_a_last_attempt_there_is_always_another() -> None:
    assert not Markers("g", "t", "t", 1, None).is_over(10**6)


def test_groups_and_records_have_markers_of_their_own_however_long_their_names() -> None:
    long = "g" * 300
    ids = {
        Markers(group, "orders", "orders", 1, None).id_of(topic, 0, offset)
        for group in ("a", "b", long)
        for topic in ("orders", "t" * 249)
        for offset in (1, 2)
    }

    assert len(ids) == 12
    assert all(0 < len(id_.encode()) <= 256 for id_ in ids)


@pytest.mark.parametrize(("text", "attempt"), [(b"3", 3), (b"x", 1), (None, 1), (b"", 1), (b"0", 1), (b"9" * 30, 1)])
def test_a_count_that_is_none_is_the_first_attempt(text: bytes | None, attempt: int) -> None:
    assert MARKERS.attempt_at(message(*BROUGHT_BACK, ("delay-attempt", text))) == attempt


@pytest.mark.parametrize(
    ("headers", "attempt"),
    [
        (BROUGHT_BACK, 7),
        ([("delay-id", b"team/billing:orders-0-3"), DUE], 7),
        ([("delay-id", b"0" * 64), DUE], 7),
        ([], 1),
        (BROUGHT_BACK[:1], 1),
        ([("delay-id", b"orders-0-3~7~orders"), DUE], 1),
        ([("delay-id", b"search:orders-0-3"), DUE], 1),
        ([("delay-id", b"billing:of-search:orders-0-3"), DUE], 1),
        ([("delay-id", b"billing:invoices-0-3"), DUE], 1),
        ([("delay-id", b"\xff"), DUE], 1),
    ],
)
def test_a_count_holds_if_a_marker_of_the_group_has_brought_the_message_back(headers: Any, attempt: int) -> None:
    markers = Markers("billing", "orders", "orders", 30_000, 8, "team")
    assert markers.attempt_at(message(*headers, ("delay-attempt", b"7"))) == attempt


def test_returned_messages_come_to_the_topic_for_them() -> None:
    markers = Markers("billing", "orders", "orders-again", 30_000, 8)
    assert markers.attempt_at(message(*BROUGHT_BACK, ("delay-attempt", b"7"))) == 1
