"""Sends record batches, each partition on its own: one in flight, retried in place, the others not waiting.

aiokafka's producer keeps one request a broker in flight and lets a retriable error on one partition hold up all others
(aiokafka/producer/sender.py, Sender._sender_routine). Here every partition is a lane of its own: its batches go in
order, one at a time, numbered for the broker's idempotence check (KIP-98), so that a batch sent twice is stored once.
A lane that fails moves to a connection of its own kind and backs off there until its batch is taken.

A broker answers a connection's requests one after the other, so one partition whose replicas are slow would hold up all
that share its request or its connection. When an answer is slow, each lane of the request is sent again on its own (the
broker knows the batch by its number and stores it once), and the others go on over the first connection on which
none is awaited: what was opened stays open for minutes.
"""

import asyncio
import itertools
import logging
import random
from collections import Counter, deque
from collections.abc import Hashable
from typing import Any, NamedTuple

import aiokafka.errors as kafka
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from app.kafka.errors import GaveUp, PartitionGone, Recalled, SendError, TopicUnknown, permanent
from app.kafka.metadata.cluster import Cluster
from app.kafka.produce.batch import Batch
from app.process.fatal import end_process

log = logging.getLogger(__name__)

_ACKS_ALL = -1
#: Partitions a request: with batches of half a MiB that is far below socket.request.max.bytes (100 MiB).
_REQUEST_LANES = 32
#: Steps of all partitions begin together, yet what they write comes some turns of the loop apart.
_LINGER_S = 0.001
_BACKOFF_S, _BACKOFF_MAX_S = 0.02, 2.0
#: A topic counts as gone after this many answers that say so, a backoff apart: a broker that has just started may not
#: know yet.
_GONE_AFTER = 6
#: Sequence numbers begin again at 0 after the largest that 31 bits can say.
SEQUENCES = 1 << 31
#: An answer that takes longer has the request's lanes part company, at most so often.
_SLOW_S, _PART_EVERY_S = 0.15, 1.0
#: Errors after which a lane begins anew with another producer id: the broker has forgotten or never had its numbers.
_RENUMBER = (
    kafka.UnknownProducerId.errno,
    kafka.OutOfOrderSequenceNumber.errno,
    kafka.InvalidProducerEpoch.errno,
    kafka.InvalidProducerIdMapping.errno,
)


class Ack(NamedTuple):
    """What the broker says of a stored batch: its first offset, and its append time in ms (-1: the topic has none)."""

    offset: int
    timestamp_ms: int


class Lane:
    """The way to one partition: batches in order, one in flight."""

    __slots__ = (
        "alone",
        "attempt",
        "failing_since",
        "failures",
        "flying",
        "given_up",
        "gone",
        "partition",
        "producer",
        "queue",
        "retry_at",
        "sequence",
        "stale",
        "topic",
        "used",
        "why",
    )

    def __init__(self, topic: str, partition: int) -> None:
        """Begin with nothing sent."""
        self.topic, self.partition = topic, partition
        self.queue: deque[tuple[Batch, asyncio.Future[Ack]]] = deque()
        self.flying = self.given_up = self.alone = False
        self.stale = False  # its numbers must not be used again
        self.used = True  # since the last look for idle ones
        self.attempt = 0
        self.producer: tuple[int, int] | None = None
        self.sequence = 0
        self.failures = self.gone = 0
        self.retry_at = self.failing_since = 0.0
        self.why = ""  # of its last failure


class Flight:
    """A request on its way: lanes, their batches, and which attempts these are."""

    __slots__ = ("group", "leader", "sent", "timer")

    def __init__(self, leader: int, group: Hashable, sent: list[tuple[Lane, Batch, int]]) -> None:
        """Begin without a timer that sees whether it is slow."""
        self.leader, self.group, self.sent = leader, group, sent
        self.timer: asyncio.TimerHandle | None = None

    def over(self) -> None:
        """Look at it no more."""
        if self.timer is not None:
            self.timer.cancel()


class Sender:
    """Sends batches to any topic of one cluster; submit() never blocks."""

    def __init__(
        self, cluster: Cluster, *, recalls: bool = False, timeout_ms: int = 10_000, name: str | None = None
    ) -> None:
        """Send through `cluster`; a broker gives up waiting for its replicas after `timeout_ms`, and is asked again.

        With `recalls`, what waits behind a batch that fails is given back as Recalled, and nothing waits for company.
        In the log the cluster has this `name`, if it is not our own.
        """
        self._cluster, self._recalls, self._timeout_ms = cluster, recalls, timeout_ms
        self._where = f" on cluster {name}" if name else ""
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._producer: tuple[int, int] | None = None
        self._ready: dict[Lane, None] = {}
        self._kicked = self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing: set[str] = set()
        self._healthy, self._parted = 0, -_PART_EVERY_S
        #: Requests of each group of connections that have no answer yet.
        self._flights = Counter[Hashable]()
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Get a producer id.

        Raises aiokafka.errors.KafkaError if the cluster gives none.
        """
        self._producer = await self._new_producer()

    async def stop(self) -> None:
        """Abandon what is in flight, or about to be."""
        self._stopped = True
        self._ready.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def submit(self, topic: str, partition: int, batch: Batch, *, first: bool = False) -> "asyncio.Future[Ack]":
        """Send a batch behind those submitted to the same partition before, or `first`, before those that wait.

        The future gives the Ack, or raises a SendError if the batch will never be taken; it waits as long as it takes
        otherwise.
        """
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = Lane(topic, partition)
        lane.used = True
        acked: asyncio.Future[Ack] = self._loop.create_future()
        (lane.queue.appendleft if first else lane.queue.append)((batch, acked))
        self._wake(lane)
        return acked

    def blocked(self, topic: str, partition: int) -> bool:
        """Tell whether a partition's last try has failed: more for it had better wait."""
        lane = self._lanes.get((topic, partition))
        return lane is not None and lane.failures > 0

    def blocked_s(self, topic: str, partition: int) -> float:
        """Give for how many seconds a partition has been failing, 0 if it has not."""
        lane = self._lanes.get((topic, partition))
        return self._loop.time() - lane.failing_since if lane is not None and lane.failures else 0.0

    def trouble(self, topic: str, partition: int) -> str:
        """Return why a partition's last try has failed, nothing if it has not or that is not known yet."""
        lane = self._lanes.get((topic, partition))
        return lane.why if lane is not None and lane.failures else ""

    def give_up(self, topic: str, partition: int) -> None:
        """Give back, as GaveUp, the batch that a failing partition is stuck with, unless it is on its way right now."""
        lane = self._lanes.get((topic, partition))
        if lane is not None and lane.queue and not lane.flying:
            _, acked = lane.queue.popleft()
            acked.set_exception(GaveUp(topic, partition))
            lane.failures = 0
            lane.given_up = True  # what comes next is given up at its first failure
            lane.flying = True  # the batch may be stored after all: its number must not be used again
            self._spawn(self._renumber(lane, "given up"))

    def forget_idle(self) -> None:
        """Forget the partitions that nothing was sent to since the last call."""
        self._spawn(self._forget(self._idle()))
        for lane in self._lanes.values():
            lane.used = False

    def _idle(self) -> list[Lane]:
        return [lane for lane in self._lanes.values() if not (lane.used or lane.queue or lane.flying)]

    async def _forget(self, idle: list[Lane]) -> None:
        """Forget lanes, unless they are used meanwhile.

        Should one come back, it counts from 0 again: under another producer id, else a broker would take its first
        batch for the one that it has stored under that number.
        """
        if not idle:
            return
        try:
            self._producer = await self._new_producer()
        except kafka.KafkaError as error:
            log.warning("no producer id: %r", error)
            return
        for lane in set(idle).intersection(self._idle()):
            del self._lanes[lane.topic, lane.partition]

    def _wake(self, lane: Lane) -> None:
        if lane.queue and not lane.flying and not self._stopped:
            self._ready[lane] = None
            if not self._kicked:
                self._kicked = True
                if self._recalls:
                    self._loop.call_soon(self._dispatch)
                else:
                    self._loop.call_later(_LINGER_S, self._dispatch)

    def _dispatch(self) -> None:
        """Send what is ready, one request a broker and kind of connection."""
        self._kicked = False
        ready, self._ready = self._ready, {}
        now, unknown = self._loop.time(), set()
        requests: dict[tuple[int, Hashable], list[Lane]] = {}
        for lane in ready:
            if lane.flying or not lane.queue:
                continue
            if lane.retry_at > now:
                self._loop.call_at(lane.retry_at, self._wake, lane)
                continue
            if lane.stale or (lane.producer or self._producer) is None:
                lane.flying = True
                self._spawn(self._renumber(lane, "still"))
                continue
            leader = self._cluster.leader(lane.topic, lane.partition)
            if leader is None:
                unknown.add(lane)
                continue
            lane.flying = True
            requests.setdefault((leader, self._group(lane)), []).append(lane)
        for (leader, group), lanes in requests.items():
            for begin in range(0, len(lanes), _REQUEST_LANES):
                self._spawn(self._produce(leader, group, lanes[begin : begin + _REQUEST_LANES]))
        if unknown:
            for lane in unknown:
                lane.flying = True
            self._spawn(self._find(unknown))

    def _group(self, lane: Lane) -> Hashable:
        """Give the connection that a lane uses."""
        if lane.alone:
            return lane.topic, lane.partition
        return "quarantine" if lane.failures else ("healthy", self._healthy)

    def _spawn(self, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        """Forget a task; one that has failed would leave its lanes waiting for good."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            end_process(error)

    async def _new_producer(self) -> tuple[int, int]:
        """Get a producer id, as soon as the cluster has one to give."""
        while True:
            response = await self._cluster.ask(InitProducerIdRequest(None, 0))
            error = kafka.for_code(response.error_code)
            if error is kafka.NoError:
                return response.producer_id, response.producer_epoch
            if not getattr(error, "retriable", False):
                raise error("the cluster gives no producer id")
            await asyncio.sleep(_BACKOFF_MAX_S / 10)

    async def _find(self, lanes: set[Lane]) -> None:
        """Find the leaders of lanes that have none."""
        missing: set[str] = set()
        try:
            missing = await self._cluster.refresh({lane.topic for lane in lanes})
        except kafka.KafkaError as error:
            log.warning("no metadata%s: %r", self._where, error)
        for lane in lanes:
            fewer = 0 < self._cluster.partitions(lane.topic) <= lane.partition
            if self._cluster.leader(lane.topic, lane.partition) is not None:
                lane.flying = False
                self._wake(lane)
            elif fewer and self._recalls:  # whoever gets it back finds another partition for it
                self._fail(lane, PartitionGone(lane.topic, lane.partition))
            elif fewer or lane.topic in missing:
                lane.gone += 1
                if lane.gone >= _GONE_AFTER:
                    self._fail(lane, TopicUnknown(lane.topic, lane.partition))
                else:
                    self._retry(lane, "the topic is not there")
            else:
                self._retry(lane, "it has no leader")

    async def _produce(self, leader: int, group: Hashable, lanes: list[Lane]) -> None:
        """Send the first batch of each lane in one request, and hear what became of each."""
        lanes = [lane for lane in lanes if lane.flying and lane.queue]  # an answer may have come since they parted
        if not lanes:
            return
        topics: dict[str, list[tuple[int, bytes]]] = {}
        sent = []
        for lane in lanes:
            lane.attempt += 1
            sent.append((lane, lane.queue[0][0], lane.attempt))
            topics.setdefault(lane.topic, []).append((lane.partition, self._number(lane)))
        request = ProduceRequest(None, _ACKS_ALL, self._timeout_ms, list(topics.items()))
        began = self._loop.time()
        flight = Flight(leader, group, sent)
        self._flights[group] += 1
        if self._recalls:
            self._watch(flight)
        try:
            response = await self._cluster.client.send(leader, request, group=group)
        except kafka.KafkaError as error:
            for lane, batch, attempt in sent:
                if lane.attempt == attempt and lane.queue and lane.queue[0][0] is batch:
                    self._retry(lane, repr(error))
            self._spawn(self._refresh({lane.topic for lane in lanes}))
            return
        finally:
            flight.over()
            self._flights[group] -= 1
        answers = {
            (topic, partition): (error, offset, timestamp)
            for topic, partitions in response.topics
            for partition, error, offset, timestamp, *_ in partitions
        }
        for lane, batch, attempt in sent:
            code, *stored = answers[lane.topic, lane.partition]
            if lane.queue and lane.queue[0][0] is batch and (lane.attempt == attempt or not code):
                lane.alone = self._recalls and self._loop.time() - began > _SLOW_S and len(lanes) == 1
                self._answered(lane, code, *stored)

    def _watch(self, flight: Flight) -> None:
        flight.timer = self._loop.call_later(_SLOW_S, self._look, flight)

    def _look(self, flight: Flight) -> None:
        """Have the lanes of a request part company, for its answer is slow."""
        # Lanes that another answer has served in the meantime have nothing to wait for.
        waiting = [lane for lane, batch, _ in flight.sent if lane.queue and lane.queue[0][0] is batch]
        if not self._part(flight.leader, flight.group, waiting):
            self._watch(flight)

    def _part(self, leader: int, group: Hashable, lanes: list[Lane]) -> bool:
        """Free the others from a request whose answer is slow: whose fault it is shows when each is sent on its own.

        Tells whether that was done: other requests that are as slow have to wait for their turn.
        """
        if len(lanes) > 1 and self._loop.time() - self._parted < _PART_EVERY_S:
            return False
        if group == ("healthy", self._healthy):
            self._healthy = next(road for road in itertools.count() if not self._flights["healthy", road])
        for lane in lanes:
            if not lane.failures:
                lane.failing_since, lane.why = self._loop.time(), "its broker's answer is slow"
                self._recall(lane)
            lane.failures += 1
            lane.alone = True
            if len(lanes) > 1:
                self._parted = self._loop.time()
                self._spawn(self._produce(leader, self._group(lane), [lane]))
        return True

    def _number(self, lane: Lane) -> bytes:
        if lane.producer is None:
            assert self._producer is not None, "start() comes first"
            lane.producer = self._producer
        return lane.queue[0][0].build(*lane.producer, lane.sequence)

    def _answered(self, lane: Lane, code: int, offset: int, timestamp_ms: int) -> None:
        if code in (0, kafka.DuplicateSequenceNumber.errno):
            batch, acked = lane.queue.popleft()
            lane.sequence = (lane.sequence + batch.count) % SEQUENCES
            lane.failures = lane.gone = 0
            lane.flying = lane.given_up = False
            if not acked.done():
                acked.set_result(Ack(offset, timestamp_ms))
            self._wake(lane)
            return
        if code in _RENUMBER:
            self._spawn(self._renumber(lane, kafka.for_code(code).__name__))
            return
        failure = permanent(lane.topic, code)
        if failure is not None:
            self._fail(lane, failure)
            return
        error = kafka.for_code(code)
        self._retry(lane, error.__name__)
        if getattr(error, "invalid_metadata", False):
            self._spawn(self._refresh({lane.topic}))

    async def _renumber(self, lane: Lane, why: str) -> None:
        """Begin the lane anew with a producer id of its own; its batch was not stored under the old one."""
        if not lane.stale:
            log.warning("%s-%d: %s, beginning anew with another producer id", lane.topic, lane.partition, why)
        lane.stale = True
        try:
            lane.producer = await self._new_producer()
        except kafka.KafkaError as error:
            self._retry(lane, repr(error))
            return
        lane.sequence, lane.stale = 0, False
        for batch, _ in lane.queue:
            batch.renumber()
        lane.flying = False
        self._wake(lane)

    def _retry(self, lane: Lane, why: str) -> None:
        if not lane.queue:  # its batch was given up: the next one is tried, for a lane that fails takes no more
            lane.failures, lane.flying = 0, False
            return
        if not lane.failures:
            lane.failing_since = lane.failing_since if lane.given_up else self._loop.time()
            self._recall(lane)
        lane.failures, lane.why = lane.failures + 1, why
        backoff = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(lane.failures, 10)) * random.uniform(0.5, 1)  # noqa: S311
        if lane.failures in (1, 10) or lane.failures % 100 == 0:
            place = f"{lane.topic}-{lane.partition}{self._where}"
            log.warning("%s: not sent (%s), try %d", place, why, lane.failures)
        lane.retry_at = self._loop.time() + backoff
        lane.flying = False
        self._wake(lane)

    def _fail(self, lane: Lane, failure: SendError) -> None:
        """Give the first batch back; its number is used for the next one, if the broker cannot have stored it.

        One that was sent before may have been, though it is refused now: brokers look at times and rights before they
        look for what they have already.
        """
        _, acked = lane.queue.popleft()
        lane.stale = lane.stale or lane.failures > 0
        lane.failures = lane.gone = 0
        if not acked.done():
            acked.set_exception(failure)
        self._loop.call_soon(self._land, lane)  # after the future's callbacks, which may submit its parts first

    def _land(self, lane: Lane) -> None:
        lane.flying = False
        self._wake(lane)

    def _recall(self, lane: Lane) -> None:
        while self._recalls and len(lane.queue) > 1:
            _, acked = lane.queue.pop()
            if not acked.done():
                acked.set_exception(Recalled(lane.topic, lane.partition))

    async def _refresh(self, topics: set[str]) -> None:
        topics = topics - self._refreshing
        if not topics:
            return
        self._refreshing |= topics
        try:
            await self._cluster.refresh(topics)
        except kafka.KafkaError as error:
            log.warning("no metadata%s: %r", self._where, error)
        finally:
            self._refreshing -= topics
