"""Sends record batches, each partition on its own: one in flight, retried in place, the others not waiting.

aiokafka's producer keeps one request a broker in flight and lets a retriable error on one partition hold up all others
(aiokafka/producer/sender.py, Sender._sender_routine). Here every partition has a queue of its own: its batches go in
order, one at a time, numbered for the broker's idempotence check (KIP-98), so that a batch sent twice is stored once.
A queue that fails moves to a connection of its own kind and backs off there until its batch is taken.

A broker answers a connection's requests one after the other, so one partition whose replicas are slow would hold up all
that share its request or its connection. When an answer is slow, each batch of the request is sent again on its own
(the broker knows it by its number and stores it once), and the others go on over the first connection on which none is
awaited: what was opened stays open for minutes.
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
#: An answer that takes longer has the request's queues part company, at most so often.
_SLOW_S, _PART_EVERY_S = 0.15, 1.0
#: Errors after which a queue begins anew with another producer id: the broker has forgotten or never had its numbers.
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


class PartitionQueue:
    """The queue of one partition: batches in order, one in flight."""

    __slots__ = (
        "alone",
        "attempt",
        "failing_since",
        "failures",
        "flying",
        "given_up",
        "gone",
        "partition",
        "pending",
        "producer",
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
        self.pending: deque[tuple[Batch, asyncio.Future[Ack]]] = deque()
        self.flying = self.given_up = self.alone = False
        self.stale = False  # its numbers must not be used again
        self.used = True  # since the last look for idle ones
        self.attempt = 0
        self.producer: tuple[int, int] | None = None
        self.sequence = 0
        self.failures = self.gone = 0
        self.retry_at = self.failing_since = 0.0
        self.why = ""  # of its last failure


class InFlightRequest:
    """A request on its way: queues, their batches, and which attempts these are."""

    __slots__ = ("group", "leader", "sent", "timer")

    def __init__(self, leader: int, group: Hashable, sent: list[tuple[PartitionQueue, Batch, int]]) -> None:
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
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._producer: tuple[int, int] | None = None
        self._ready: dict[PartitionQueue, None] = {}
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
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = PartitionQueue(topic, partition)
        queue.used = True
        acked: asyncio.Future[Ack] = self._loop.create_future()
        (queue.pending.appendleft if first else queue.pending.append)((batch, acked))
        self._wake(queue)
        return acked

    def blocked(self, topic: str, partition: int) -> bool:
        """Return whether a partition's last try has failed: more for it had better wait."""
        queue = self._queues.get((topic, partition))
        return queue is not None and queue.failures > 0

    def blocked_s(self, topic: str, partition: int) -> float:
        """Return for how many seconds a partition has been failing, 0 if it has not."""
        queue = self._queues.get((topic, partition))
        return self._loop.time() - queue.failing_since if queue is not None and queue.failures else 0.0

    def trouble(self, topic: str, partition: int) -> str:
        """Return why a partition's last try has failed, nothing if it has not or that is not known yet."""
        queue = self._queues.get((topic, partition))
        return queue.why if queue is not None and queue.failures else ""

    def give_up(self, topic: str, partition: int) -> None:
        """Give back, as GaveUp, the batch that a failing partition is stuck with, unless it is on its way right now."""
        queue = self._queues.get((topic, partition))
        if queue is not None and queue.pending and not queue.flying:
            _, acked = queue.pending.popleft()
            acked.set_exception(GaveUp(topic, partition))
            queue.failures = 0
            queue.given_up = True  # what comes next is given up at its first failure
            queue.flying = True  # the batch may be stored after all: its number must not be used again
            self._spawn(self._renumber(queue, "given up"))

    def forget_idle(self) -> None:
        """Forget the partitions that nothing was sent to since the last call."""
        self._spawn(self._forget(self._idle()))
        for queue in self._queues.values():
            queue.used = False

    def _idle(self) -> list[PartitionQueue]:
        return [queue for queue in self._queues.values() if not (queue.used or queue.pending or queue.flying)]

    async def _forget(self, idle: list[PartitionQueue]) -> None:
        """Forget queues, unless they are used meanwhile.

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
        for queue in set(idle).intersection(self._idle()):
            del self._queues[queue.topic, queue.partition]

    def _wake(self, queue: PartitionQueue) -> None:
        if queue.pending and not queue.flying and not self._stopped:
            self._ready[queue] = None
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
        requests: dict[tuple[int, Hashable], list[PartitionQueue]] = {}
        for queue in ready:
            if queue.flying or not queue.pending:
                continue
            if queue.retry_at > now:
                self._loop.call_at(queue.retry_at, self._wake, queue)
                continue
            if queue.stale or (queue.producer or self._producer) is None:
                queue.flying = True
                self._spawn(self._renumber(queue, "still"))
                continue
            leader = self._cluster.leader(queue.topic, queue.partition)
            if leader is None:
                unknown.add(queue)
                continue
            queue.flying = True
            requests.setdefault((leader, self._group(queue)), []).append(queue)
        for (leader, group), queues in requests.items():
            for begin in range(0, len(queues), _REQUEST_LANES):
                self._spawn(self._produce(leader, group, queues[begin : begin + _REQUEST_LANES]))
        if unknown:
            for queue in unknown:
                queue.flying = True
            self._spawn(self._find(unknown))

    def _group(self, queue: PartitionQueue) -> Hashable:
        """Return the connection that a queue uses."""
        if queue.alone:
            return queue.topic, queue.partition
        return "quarantine" if queue.failures else ("healthy", self._healthy)

    def _spawn(self, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        """Forget a task; one that has failed would leave its queues waiting for good."""
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

    async def _find(self, queues: set[PartitionQueue]) -> None:
        """Find the leaders of queues that have none."""
        missing: set[str] = set()
        try:
            missing = await self._cluster.refresh({queue.topic for queue in queues})
        except kafka.KafkaError as error:
            log.warning("no metadata%s: %r", self._where, error)
        for queue in queues:
            fewer = 0 < self._cluster.partitions(queue.topic) <= queue.partition
            if self._cluster.leader(queue.topic, queue.partition) is not None:
                queue.flying = False
                self._wake(queue)
            elif fewer and self._recalls:  # whoever gets it back finds another partition for it
                self._fail(queue, PartitionGone(queue.topic, queue.partition))
            elif fewer or queue.topic in missing:
                queue.gone += 1
                if queue.gone >= _GONE_AFTER:
                    self._fail(queue, TopicUnknown(queue.topic, queue.partition))
                else:
                    self._retry(queue, "the topic is not there")
            else:
                self._retry(queue, "it has no leader")

    async def _produce(self, leader: int, group: Hashable, queues: list[PartitionQueue]) -> None:
        """Send the first batch of each queue in one request, and hear what became of each."""
        queues = [
            queue for queue in queues if queue.flying and queue.pending
        ]  # an answer may have come since they parted
        if not queues:
            return
        topics: dict[str, list[tuple[int, bytes]]] = {}
        sent = []
        for queue in queues:
            queue.attempt += 1
            sent.append((queue, queue.pending[0][0], queue.attempt))
            topics.setdefault(queue.topic, []).append((queue.partition, self._number(queue)))
        request = ProduceRequest(None, _ACKS_ALL, self._timeout_ms, list(topics.items()))
        began = self._loop.time()
        in_flight = InFlightRequest(leader, group, sent)
        self._flights[group] += 1
        if self._recalls:
            self._watch(in_flight)
        try:
            response = await self._cluster.client.send(leader, request, group=group)
        except kafka.KafkaError as error:
            for queue, batch, attempt in sent:
                if queue.attempt == attempt and queue.pending and queue.pending[0][0] is batch:
                    self._retry(queue, repr(error))
            self._spawn(self._refresh({queue.topic for queue in queues}))
            return
        finally:
            in_flight.over()
            self._flights[group] -= 1
        answers = {
            (topic, partition): (error, offset, timestamp)
            for topic, partitions in response.topics
            for partition, error, offset, timestamp, *_ in partitions
        }
        for queue, batch, attempt in sent:
            code, *stored = answers[queue.topic, queue.partition]
            if queue.pending and queue.pending[0][0] is batch and (queue.attempt == attempt or not code):
                queue.alone = self._recalls and self._loop.time() - began > _SLOW_S and len(queues) == 1
                self._answered(queue, code, *stored)

    def _watch(self, in_flight: InFlightRequest) -> None:
        in_flight.timer = self._loop.call_later(_SLOW_S, self._look, in_flight)

    def _look(self, in_flight: InFlightRequest) -> None:
        """Have the queues of a request part company, for its answer is slow."""
        # Queues that another answer has served in the meantime have nothing to wait for.
        waiting = [queue for queue, batch, _ in in_flight.sent if queue.pending and queue.pending[0][0] is batch]
        if not self._part(in_flight.leader, in_flight.group, waiting):
            self._watch(in_flight)

    def _part(self, leader: int, group: Hashable, queues: list[PartitionQueue]) -> bool:
        """Free the others from a request whose answer is slow: whose fault it is shows when each is sent on its own.

        Tells whether that was done: other requests that are as slow have to wait for their turn.
        """
        if len(queues) > 1 and self._loop.time() - self._parted < _PART_EVERY_S:
            return False
        if group == ("healthy", self._healthy):
            self._healthy = next(number for number in itertools.count() if not self._flights["healthy", number])
        for queue in queues:
            if not queue.failures:
                queue.failing_since, queue.why = self._loop.time(), "its broker's answer is slow"
                self._recall(queue)
            queue.failures += 1
            queue.alone = True
            if len(queues) > 1:
                self._parted = self._loop.time()
                self._spawn(self._produce(leader, self._group(queue), [queue]))
        return True

    def _number(self, queue: PartitionQueue) -> bytes:
        if queue.producer is None:
            assert self._producer is not None, "start() comes first"
            queue.producer = self._producer
        return queue.pending[0][0].build(*queue.producer, queue.sequence)

    def _answered(self, queue: PartitionQueue, code: int, offset: int, timestamp_ms: int) -> None:
        if code in (0, kafka.DuplicateSequenceNumber.errno):
            batch, acked = queue.pending.popleft()
            queue.sequence = (queue.sequence + batch.count) % SEQUENCES
            queue.failures = queue.gone = 0
            queue.flying = queue.given_up = False
            if not acked.done():
                acked.set_result(Ack(offset, timestamp_ms))
            self._wake(queue)
            return
        if code in _RENUMBER:
            self._spawn(self._renumber(queue, kafka.for_code(code).__name__))
            return
        failure = permanent(queue.topic, code)
        if failure is not None:
            self._fail(queue, failure)
            return
        error = kafka.for_code(code)
        self._retry(queue, error.__name__)
        if getattr(error, "invalid_metadata", False):
            self._spawn(self._refresh({queue.topic}))

    async def _renumber(self, queue: PartitionQueue, why: str) -> None:
        """Begin the queue anew with a producer id of its own; its batch was not stored under the old one."""
        if not queue.stale:
            log.warning("%s-%d: %s, beginning anew with another producer id", queue.topic, queue.partition, why)
        queue.stale = True
        try:
            queue.producer = await self._new_producer()
        except kafka.KafkaError as error:
            self._retry(queue, repr(error))
            return
        queue.sequence, queue.stale = 0, False
        for batch, _ in queue.pending:
            batch.renumber()
        queue.flying = False
        self._wake(queue)

    def _retry(self, queue: PartitionQueue, why: str) -> None:
        if not queue.pending:  # its batch was given up: the next one is tried, for a queue that fails takes no more
            queue.failures, queue.flying = 0, False
            return
        if not queue.failures:
            queue.failing_since = queue.failing_since if queue.given_up else self._loop.time()
            self._recall(queue)
        queue.failures, queue.why = queue.failures + 1, why
        backoff = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(queue.failures, 10)) * random.uniform(0.5, 1)  # noqa: S311
        if queue.failures in (1, 10) or queue.failures % 100 == 0:
            tp = f"{queue.topic}-{queue.partition}{self._where}"
            log.warning("%s: not sent (%s), try %d", tp, why, queue.failures)
        queue.retry_at = self._loop.time() + backoff
        queue.flying = False
        self._wake(queue)

    def _fail(self, queue: PartitionQueue, failure: SendError) -> None:
        """Give the first batch back; its number is used for the next one, if the broker cannot have stored it.

        One that was sent before may have been, though it is refused now: brokers look at times and rights before they
        look for what they have already.
        """
        _, acked = queue.pending.popleft()
        queue.stale = queue.stale or queue.failures > 0
        queue.failures = queue.gone = 0
        if not acked.done():
            acked.set_exception(failure)
        self._loop.call_soon(self._land, queue)  # after the future's callbacks, which may submit its parts first

    def _land(self, queue: PartitionQueue) -> None:
        queue.flying = False
        self._wake(queue)

    def _recall(self, queue: PartitionQueue) -> None:
        while self._recalls and len(queue.pending) > 1:
            _, acked = queue.pending.pop()
            if not acked.done():
                acked.set_exception(Recalled(queue.topic, queue.partition))

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
