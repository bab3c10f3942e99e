"""The last attempt at a message, with a Kafka that is slow around the deadline: one dead letter."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace

import pytest

from punctual.client.errors import NotAcknowledgedError
from punctual.client.requests import Request
from punctual.queue import queue as queue_module
from punctual.queue import settlement
from tests.punctual.queue.test_flood import SimulatedLoop, Topic, queue_on

#: The queue's usual maximum.
ATTEMPTS = 8


class SlowTopic(Topic):
    """A topic whose brokers append late, or acknowledge late, while `slow`; and may forget to acknowledge."""

    slow = False

    def __init__(self, loop: SimulatedLoop, append_s: float, ack_s: float, *, acknowledges: bool) -> None:
        super().__init__(loop)
        self._append_s, self._ack_s, self._acknowledges = append_s, ack_s, acknowledges

    def recover(self) -> None:
        self.slow = False

    async def send(self, request: Request) -> None:
        await self.send_all([request])

    async def send_all(self, requests: Sequence[Request]) -> None:
        slow = self.slow
        await asyncio.sleep(self._append_s if slow else 0)
        await super().send_all(requests)
        await asyncio.sleep(self._ack_s if slow else 0)
        if slow and not self._acknowledges:
            raise NotAcknowledgedError("requests", "too slow")


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedLoop]:
    made = SimulatedLoop()
    for module in (queue_module, settlement):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=made.time))
    yield made
    made.close()


@pytest.mark.parametrize("before_s", [29.0, 6.0, 1.0, 0.001])
@pytest.mark.parametrize(("append_s", "ack_s"), [(0, 0), (0, 2), (2, 0), (20, 0), (0, 20)])
def test_a_late_nack_makes_one_dead_letter(before_s: float, append_s: float, ack_s: float, loop: SimulatedLoop) -> None:
    topic = SlowTopic(loop, append_s, ack_s, acknowledges=True)
    loop.run_until_complete(nack_last_attempt(topic, loop, before_s, slow_s=600))

    assert topic.letters == ["attempts-exhausted"]


def test_a_nack_that_is_in_time_has_its_error_in_the_letter_at_once(loop: SimulatedLoop) -> None:
    topic = SlowTopic(loop, 0, 0, acknowledges=True)
    ended_s = loop.run_until_complete(nack_last_attempt(topic, loop, 6.0, slow_s=0, rest_s=0.1))

    assert topic.letters == ["attempts-exhausted"]
    assert ended_s < 1


def test_without_an_acknowledgement_before_the_deadline_the_reader_makes_the_letter(loop: SimulatedLoop) -> None:
    topic = SlowTopic(loop, 0, 5, acknowledges=False)
    loop.run_until_complete(nack_last_attempt(topic, loop, 4.0, slow_s=3))

    assert topic.letters == ["attempts-exhausted"]


@pytest.mark.parametrize(("append_s", "ack_s"), [(0, 0), (0, 2), (2, 0)])
def test_an_extension_that_comes_too_late_makes_no_second_letter(
    append_s: float, ack_s: float, loop: SimulatedLoop
) -> None:
    topic = SlowTopic(loop, append_s, ack_s, acknowledges=True)
    loop.run_until_complete(nack_last_attempt(topic, loop, 1.0, slow_s=2, extends=True))

    assert topic.letters == ["attempts-exhausted"]


async def nack_last_attempt(
    topic: SlowTopic,
    loop: SimulatedLoop,
    before_s: float,
    *,
    slow_s: float,
    rest_s: float = 1_000,
    extends: bool = False,
) -> float:
    """Refuse a message's last attempt a given time before its deadline; return the duration."""
    queue = queue_on(topic, loop)
    topic.put(b"v", [("delay-attempt", b"%d" % ATTEMPTS), ("delay-id", b"billing:jobs-0-9"), ("delay-due", b"1")])
    [message] = await queue._next(1)
    assert message.attempt == ATTEMPTS
    await asyncio.sleep(message.deadline - loop.time() - before_s)
    topic.slow, began_s = slow_s > 0, loop.time()
    loop.call_later(slow_s, topic.recover)
    if extends:
        await message.extend(timedelta(seconds=60))
    await message.nack(error="it is away")
    took_s = loop.time() - began_s
    await asyncio.sleep(rest_s)
    for task in queue._tasks:
        task.cancel()
    return took_s
