"""Events of a key in order: a failed event is retried, later events of its key wait, and others do not."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import mode
import pytest

from punctual import exponential
from punctual.client.faust_retries import _OrderedAgent
from punctual.client.key_order import Attempts, KeyOrder
from tests.harness.simulated_time import in_simulated_time
from tests.harness.waiting import LIMIT_S

BACKOFF = exponential("20ms", 1, "20ms", jitter=False)


@dataclass(frozen=True)
class Message:
    tp: int
    offset: int
    key: bytes | None
    topic: str = "orders"

    @property
    def partition(self) -> int:
        return self.tp


@dataclass(frozen=True)
class Event:
    message: Message


def event(offset: int, key: bytes | None = b"a", partition: int = 0) -> Event:
    return Event(Message(partition, offset, key))


class Agent:
    """Handles events; each event fails a given number of times."""

    def __init__(self, *, most: int | None = 3, limit: int = 100) -> None:
        self.fails = Counter[int]()
        self.handled: list[int] = []
        self.given_up: list[tuple[int, int, str]] = []
        self.acked: list[int] = []
        self.crashes: list[BaseException] = []
        self.pausing = False
        self.waited_for = set[int]()
        self.order = KeyOrder(Attempts((ValueError,), BACKOFF, most), limit, self)

    async def take(self, *events: Event) -> None:
        for one in events:
            await self.order.take(one)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.acked) < count:  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.005)

    async def handle(self, one: Event) -> None:
        self.waited_for.add(one.message.offset)
        await asyncio.sleep(0)
        offset = one.message.offset
        if self.fails[offset] < 0:
            raise LookupError("nobody has thought of this")
        if self.fails[offset]:
            self.fails[offset] -= 1
            raise ValueError(f"{offset} fails")
        self.handled.append(offset)

    async def give_up(self, one: Event, failed: int, error: BaseException) -> None:
        if self.fails[-1]:
            raise RuntimeError("it is too large")
        self.given_up.append((one.message.offset, failed, str(error)))

    async def ack(self, one: Event) -> None:
        self.acked.append(one.message.offset)
        self.waited_for.discard(one.message.offset)

    def rest(self, one: Event) -> None:
        self.waited_for.discard(one.message.offset)

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)
        await asyncio.Event().wait()


@in_simulated_time
async def test_events_behind_a_failed_event_of_their_key_wait_and_others_do_not() -> None:
    agent = Agent()
    agent.fails[0] = 2
    await agent.take(event(0), event(1, b"b"), event(2), event(3, b"b"))
    assert agent.handled == [1, 3]
    assert agent.acked == [], "a committed event would not be read again before the failed one"

    await agent.until(4)
    assert agent.handled == [1, 3, 0, 2]
    assert agent.acked == [0, 1, 2, 3]


@in_simulated_time
async def test_partitions_do_not_wait_for_each_other() -> None:
    agent = Agent()
    agent.fails[0] = 1
    await agent.take(event(0), event(1, partition=1))

    assert (agent.handled, agent.acked) == ([1], [1])
    await agent.until(2)


@in_simulated_time
async def test_after_the_last_attempt_it_is_given_up_and_the_next_one_comes() -> None:
    agent = Agent()
    agent.fails[0] = 9
    agent.fails[1] = 1
    await agent.take(event(0), event(1))
    await agent.until(2)

    assert agent.given_up == [(0, 3, "0 fails")]
    assert agent.handled == [1]


@in_simulated_time
async def test_without_a_most_there_is_always_another_attempt() -> None:
    agent = Agent(most=None)
    agent.fails[0] = 7
    await agent.take(event(0))
    await agent.until(1)

    assert (agent.handled, agent.given_up) == ([0], [])


@in_simulated_time
async def test_events_without_a_key_have_no_order() -> None:
    agent = Agent()
    agent.fails[0] = 1
    await agent.take(event(0, None), event(1, None))

    assert agent.handled == [1]
    await agent.until(2)
    assert agent.acked == [0, 1]


@in_simulated_time
async def test_no_more_are_taken_than_may_be_held() -> None:
    agent = Agent(limit=3)
    agent.pausing = True
    agent.fails[0] = 2
    await agent.take(event(0), event(1, b"b"))
    taking = asyncio.create_task(agent.take(event(2, b"b"), event(3, b"b")))
    await asyncio.sleep(0.05)

    assert not taking.done()
    assert agent.handled == [1, 2]
    agent.pausing = False
    await taking
    await agent.until(4)
    assert agent.handled == [1, 2, 0, 3]


@in_simulated_time
async def test_a_partition_that_another_consumer_reads_now_is_left_to_it() -> None:
    agent = Agent()
    agent.fails[0] = agent.fails[2] = 1
    await agent.take(event(0), event(1), event(2, partition=1))
    agent.order.forget([0, 7])
    await agent.until(1)
    await asyncio.sleep(0.05)

    assert (agent.handled, agent.acked) == ([2], [2])
    await agent.take(event(0), event(1))  # it has come back
    assert agent.handled == [2, 0, 1]


@in_simulated_time
async def test_an_event_that_is_being_handled_while_its_partition_goes_is_not_acknowledged() -> None:
    agent = Agent()
    taking = asyncio.create_task(agent.take(event(0)))
    await asyncio.sleep(0)
    agent.order.forget([0])
    await taking

    assert (agent.handled, agent.acked) == ([0], [])


@pytest.mark.parametrize("failed_before", [0, 1])
@in_simulated_time
async def test_no_event_is_handled_after_an_unexpected_failure(failed_before: int) -> None:
    agent = Agent()
    agent.fails[0] = failed_before or -1
    taking = asyncio.create_task(agent.take(event(0)))
    await asyncio.sleep(0.01)
    assert taking.done() == bool(failed_before)
    if failed_before:
        agent.fails[0] = -1
        await agent.take(event(1))
        await asyncio.sleep(0.05)

    assert [str(error) for error in agent.crashes] == ["nobody has thought of this"]
    assert (agent.handled, agent.acked) == ([], [])
    taking.cancel()
    await agent.order.aclose()


@in_simulated_time
async def test_an_app_that_ends_for_an_error_still_has_its_consumer_when_it_stops() -> None:
    worker = mode.Service()
    app = mode.Service(beacon=worker.beacon)
    consumer = app.add_dependency(mode.Service())
    nothing, error = cast("Any", None), LookupError("nobody has thought of this")
    agent = _OrderedAgent(app, nothing, nothing, nothing)
    ending = asyncio.create_task(agent.crash(error))
    await asyncio.sleep(0)

    assert worker.crash_reason is app.crash_reason is error
    assert worker.should_stop
    assert app.should_stop
    assert not consumer.should_stop
    ending.cancel()


@in_simulated_time
async def test_held_events_are_not_waited_for() -> None:
    agent = Agent()
    agent.fails[0] = 1
    await agent.take(event(0), event(1), event(2, b"b"), event(3, partition=1))
    assert agent.waited_for == set()
    await agent.until(4)

    assert agent.waited_for == set()


@in_simulated_time
async def test_no_attempt_begins_while_partitions_are_shared_out() -> None:
    agent = Agent()
    agent.fails[0] = 1
    await agent.take(event(0), event(1))
    agent.pausing = True
    await asyncio.sleep(0.15)
    assert agent.handled == []

    agent.pausing = False
    await agent.until(2)
    assert agent.handled == [0, 1]


@pytest.mark.parametrize("what", ["give up", "cancelled"])
@in_simulated_time
async def test_an_error_outside_the_handler_does_not_silently_block_its_key(what: str) -> None:
    agent = Agent(most=1 if what == "give up" else None)
    agent.fails[0] = 1
    agent.fails[-1] = 1
    await agent.take(event(0))
    if what == "cancelled":

        async def handle(_: Event) -> None:
            raise asyncio.CancelledError

        agent.handle = handle  # type: ignore[method-assign, assignment]
    await asyncio.sleep(0.1)

    assert [type(error) for error in agent.crashes] == [RuntimeError if what == "give up" else asyncio.CancelledError]


@in_simulated_time
async def test_closing_ends_all_waits() -> None:
    agent = Agent()
    agent.fails[0] = 2
    await agent.take(event(0), event(1))
    await agent.order.aclose()
    await asyncio.sleep(0.05)

    assert (agent.handled, agent.acked) == ([], [])


@in_simulated_time
async def test_any_failures_leave_the_order_of_every_key() -> None:
    random, agent = Random(7), Agent(most=None, limit=40)  # noqa: S311 - no secret
    events = [event(n, bytes([random.randrange(9)]), random.randrange(3)) for n in range(600)]
    for one in events:
        agent.fails[one.message.offset] = random.choices([0, 1, 2], [90, 8, 2])[0]
    await agent.take(*events)
    await agent.until(600)

    handled, acked, asked = (defaultdict[object, list[int]](list) for _ in range(3))
    known = {one.message.offset: one.message for one in events}
    for offset in agent.handled:
        handled[known[offset].tp, known[offset].key].append(offset)
    for offset in agent.acked:
        acked[known[offset].tp].append(offset)
    for one in events:
        asked[one.message.tp].append(one.message.offset)
    assert all(offsets == sorted(offsets) for offsets in handled.values())
    assert acked == asked
    assert agent.order.held == 0
