"""The messages that a queue holds, on the test's clock."""

from typing import Any

import pytest

from punctual.queue.held import Held
from punctual.queue.message import Message


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def message(name: str, deadline: float = 10.0) -> Message:
    keeper: Any = None
    place: dict[str, Any] = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "key": None, "value": None}
    return Message(keeper, **place, headers=(), attempt=1, id=name, deadline=deadline)


def names(messages: list[Message]) -> list[str]:
    return [one.id for one in messages]


def test_messages_go_out_in_their_order_and_count_until_they_are_settled(clock: Clock) -> None:
    held = Held(5, clock)
    held.add([message(name) for name in "abc"])
    found, late = held.hand_out(2)

    assert (names(found), late) == (["a", "b"], 0)
    assert (held.waiting, held.out, held.room) == (1, 2, 2)
    assert held.settle(found[0])
    assert not held.settle(found[0])
    assert (held.waiting, held.out, held.room) == (1, 1, 3)


def test_a_message_past_its_deadline_is_never_handed_out(clock: Clock) -> None:
    held = Held(5, clock)
    held.add([message("a", 1), message("b", 3), message("c", 2)])
    clock.now = 2

    found, late = held.hand_out(5)

    assert (names(found), late) == (["b"], 2)


def test_a_handed_out_message_expires_once(clock: Clock) -> None:
    held = Held(5, clock)
    held.add([message("a", 1), message("b", 2), message("c", 3)])
    [_, second, _] = held.hand_out(3)[0]
    held.settle(second)
    assert held.next_deadline == 1
    clock.now = 2.5

    assert (held.expire(), held.expire(), held.out) == (1, 0, 1)


def test_an_extended_message_expires_only_at_its_new_deadline(clock: Clock) -> None:
    held = Held(5, clock)
    held.add([message("a", 1)])
    [one] = held.hand_out(1)[0]
    one.deadline = 5
    held.watch(one)
    clock.now = 4
    assert (held.expire(), held.out) == (0, 1)

    clock.now = 5
    assert (held.expire(), held.out) == (1, 0)


def test_a_message_that_is_read_again_is_not_settled_by_its_first_copy(clock: Clock) -> None:
    held = Held(5, clock)
    held.add([message("a"), message("a")])
    first, second = held.hand_out(2)[0]

    assert not held.settle(first)
    assert held.settle(second)


def test_a_message_that_was_not_handed_out_can_be_taken_back_unless_it_is_on_its_way(clock: Clock) -> None:
    held = Held(5, clock)
    held.add([message("a", 1), message("b", 9)])
    clock.now = 1

    assert names(held.take_back()) == ["b"]
    assert len(held) == 0


def test_a_message_settled_long_before_its_deadline_leaves_no_trace(clock: Clock) -> None:
    held = Held(100, clock)
    for number in range(20_000):
        held.add([message(f"{number}", 1_800)])
        held.settle(held.hand_out(1)[0][0])

    assert len(held._deadlines) < 2_000
    assert not any(isinstance(part, Message) for entry in held._deadlines for part in entry)


def test_an_unsettled_message_expires_among_many_settled_ones(clock: Clock) -> None:
    held = Held(100, clock)
    held.add([message("slow", 5)])
    held.hand_out(1)
    for number in range(5_000):
        held.add([message(f"{number}", 1_800)])
        held.settle(held.hand_out(1)[0][0])
    assert held.next_deadline == 5
    clock.now = 5

    assert (held.expire(), held.out) == (1, 0)
