"""Half an hour in which everything fails, on a simulated clock: the real queue, and a worker that keeps its markers."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from punctual.client.requests import Request
from punctual.contract import native
from punctual.contract.request import Refusal
from punctual.contract.request import Request as Asked
from punctual.queue import Breaker, DelayQueue, settlement
from punctual.queue import queue as queue_module
from punctual.queue.intake import QueueIntake
from punctual.queue.outbox import Outbox
from tests.punctual.contract.records import NOW, FakeRecord

MINUTE_S = 60.0
#: Messages per second, and for how long; between two of these minutes, every attempt fails.
RATE, UNTIL_S, FAILS_FROM_S, FAILS_TO_S = 20, 40 * MINUTE_S, 2 * MINUTE_S, 32 * MINUTE_S
#: How long a message is handled, and by how many tasks.
HANDLED_S, TASKS = 0.05, 4
MESSAGES = int(RATE * UNTIL_S)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next timer when no task is ready."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # asyncio's own
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class Topic:
    """A topic, its consumer, and a worker that delivers the scheduled messages to it."""

    ends: dict[int, int] = {}  # noqa: RUF012 - the worker is never behind

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._records = deque[FakeRecord]()
        self._pending: dict[str, tuple[asyncio.TimerHandle, Asked]] = {}
        self._offset = 0
        self.letters: list[str] = []

    def put(self, value: bytes, headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        stamp = NOW + round(self._loop.time() * 1000)
        self._records.append(FakeRecord(headers, b"k", value, "jobs", 0, self._offset, stamp))
        self._offset += 1

    # the consumer ----------------------------------------------------------------------------------------------------
    async def getmany(self, timeout_ms: int, max_records: int) -> dict[str, list[FakeRecord]]:
        if not self._records:
            await asyncio.sleep(timeout_ms / 1000)
        found = [self._records.popleft() for _ in range(min(max_records, len(self._records)))]
        return {"jobs-0": found} if found else {}

    async def commit(self, _: object) -> None:
        await asyncio.sleep(0.002)

    # the worker ------------------------------------------------------------------------------------------------------
    async def send_all(self, requests: Sequence[Request]) -> None:
        await asyncio.sleep(0.005)
        for request in requests:
            self._obey(request)

    def _obey(self, request: Request) -> None:
        record = FakeRecord(
            request.headers, request.key, request.value, timestamp=NOW + round(self._loop.time() * 1000)
        )
        try:
            asked = native.decode(record)
        except Refusal as refusal:
            self.letters.append(refusal.reason.value)
            return
        there = self._pending.pop(asked.id, None)
        if there is not None:
            there[0].cancel()
        if asked.op == "schedule":
            self._wait(asked, asked.due_ms)
        elif asked.op == "reschedule" and there is not None:
            self._wait(there[1], asked.due_ms)

    def _wait(self, asked: Asked, due_ms: int) -> None:
        timer = self._loop.call_at((due_ms - NOW) / 1000, self._deliver, asked)
        self._pending[asked.id] = timer, asked

    def _deliver(self, asked: Asked) -> None:
        del self._pending[asked.id]
        due = b"%d" % asked.due_ms
        self.put(asked.value or b"", [*asked.headers, ("delay-id", asked.id.encode()), ("delay-due", due)])


class Clocked(QueueIntake):
    """An intake by the simulated clock."""

    async def take(self, limit: int, clock: Any = None) -> Any:
        return await super().take(limit, clock or asyncio.get_running_loop().time)


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    made = SimulatedLoop()
    yield made
    made.close()


def queue_on(topic: Any, loop: SimulatedLoop) -> DelayQueue:
    """Return a queue with the topic in place of its connections."""
    queue = DelayQueue("nowhere", "jobs", "billing", breaker=Breaker(clock=loop.time))
    queue._connection, queue._outbox = topic, Outbox(topic)
    queue._settlement = replace(queue._settlement, connection=topic, outbox=queue._outbox)
    queue._intake = Clocked(topic, topic, queue._markers, queue._settlement)
    queue._tasks = [loop.create_task(queue._read(queue._intake)), loop.create_task(queue._outbox.run())]
    return queue


@pytest.mark.slow
def test_a_flood_of_errors_of_half_an_hour_is_bounded_and_over_by_itself(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=loop.time)
    monkeypatch.setattr(queue_module, "time", clock)
    monkeypatch.setattr(settlement, "time", clock)
    tried: list[float] = []
    done, closed_s = Counter[bytes](), 0.0

    async def work(queue: DelayQueue) -> None:
        nonlocal closed_s
        async for message in queue:
            await asyncio.sleep(HANDLED_S)
            now = loop.time()
            if FAILS_FROM_S <= now < FAILS_TO_S:
                tried.append(now)
                await message.nack(error="it is away")
                continue
            done[message.value or b""] += 1
            await message.ack()
            if now >= FAILS_TO_S and not closed_s:
                closed_s = now

    async def write(topic: Topic) -> None:
        for number in range(MESSAGES):
            topic.put(b"%d" % number)
            await asyncio.sleep(1 / RATE)

    async def flood() -> tuple[DelayQueue, Topic]:
        topic = Topic(loop)
        queue = queue_on(topic, loop)
        tasks = [loop.create_task(work(queue)) for _ in range(TASKS)]
        await write(topic)
        while len(done) < MESSAGES and loop.time() < 3 * UNTIL_S:  # noqa: ASYNC110 - on a simulated clock
            await asyncio.sleep(1)
        for task in [*tasks, *queue._tasks]:
            task.cancel()
        return queue, topic

    queue, topic = loop.run_until_complete(flood())

    # Opened within a second, then a probe after 1, 2, 4, … s and every minute: 30 minutes, 36,000 messages.
    assert len(tried) <= 2 * queue.breaker.over + TASKS + 6 + 30 * MINUTE_S / queue.breaker.longest_s
    assert len([at for at in tried if at > FAILS_FROM_S + 10 * MINUTE_S]) <= 21
    assert queue.breaker.opened == 1
    assert FAILS_TO_S <= closed_s <= FAILS_TO_S + queue.breaker.longest_s + 1
    assert set(done) == {b"%d" % number for number in range(MESSAGES)}
    assert topic.letters == [], "returned messages have not lost attempts"
    assert sum(done.values()) - MESSAGES <= TASKS
    assert loop.time() < UNTIL_S + 10 * MINUTE_S
