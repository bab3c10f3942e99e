"""Sends record batches, each partition independently: one in flight, retried in place, without delaying others.

aiokafka's producer keeps one request per broker in flight and lets a retriable error on one partition delay all others
(aiokafka/producer/sender.py, Sender._sender_routine). Here every partition has its own queue: its batches are sent in
order, one at a time, numbered for the broker's idempotence check (KIP-98), so that a batch sent twice is stored once. A
queue that fails moves to another kind of connection and backs off there until its batch is accepted.

Requests, and the handling of slow answers, are in app/kafka/produce/requests.py.
"""

import asyncio
import logging
from collections import defaultdict
from typing import Any

import aiokafka.errors as kafka

from app.base.process.fatal import end_process
from app.kafka.errors import GaveUp, PartitionGone, Recalled, SendError, TopicUnknown, permanent
from app.kafka.metadata.cluster import Cluster, LeaderSearch
from app.kafka.produce.batch import Ack, Batch
from app.kafka.produce.partition_queue import PartitionQueue, ProducerId, new_producer_id
from app.kafka.produce.requests import Connection, Requests
from punctual.contract.destination import named

log = logging.getLogger(__name__)

#: Partitions per request: with batches of 512 KiB that is far below socket.request.max.bytes (100 MiB).
_REQUEST_QUEUES = 32
#: Steps of all partitions begin together, but their writes are some turns of the event loop apart.
_LINGER_S = 0.001
#: A batch with this many records gets a request of its own.
_ENOUGH = 100
#: A topic counts as missing after this many such answers, a backoff apart: a broker that has just started may not know
#: it yet.
_GONE_AFTER = 6
#: Errors after which a queue gets a new producer id, because the broker does not know its numbers.
_RENUMBER = (
    kafka.UnknownProducerId.errno,
    kafka.OutOfOrderSequenceNumber.errno,
    kafka.InvalidProducerEpoch.errno,
    kafka.InvalidProducerIdMapping.errno,
)


class Sender:
    """Sends batches to any topic of one cluster; submit() never blocks."""

    def __init__(
        self, cluster: Cluster, *, recalls: bool = False, timeout_ms: int = 10_000, name: str | None = None
    ) -> None:
        """Send through `cluster`; brokers wait `timeout_ms` for their replicas, after which the batch is sent again.

        With `recalls`, batches after a failed one fail with Recalled, and no batch waits to share a request. The
        log calls the cluster `name`, unless it is the default one.
        """
        self._cluster, self._recalls, self._name = cluster, recalls, name
        self._where = f" on cluster {name}" if name else ""
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._producer: ProducerId | None = None
        self._ready: dict[PartitionQueue, None] = {}
        self._kicked = self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaders = LeaderSearch(cluster, self._where)
        self._loop = asyncio.get_running_loop()
        self._requests = Requests(cluster, timeout_ms, end_process, self._answered, self._unanswered, parting=recalls)

    async def start(self) -> None:
        """Get a producer id.

        Raises aiokafka.errors.KafkaError if the cluster gives none.
        """
        self._producer = await new_producer_id(self._cluster)

    async def stop(self) -> None:
        """Abandon the batches that are in flight or waiting."""
        self._stopped = True
        self._ready.clear()
        self._requests.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def submit(self, topic: str, partition: int, batch: Batch, *, first: bool = False) -> asyncio.Future[Ack]:
        """Send a batch after those submitted to the same partition before, or `first`, before the waiting ones.

        The future returns the Ack, or raises a SendError if the batch will never be accepted; otherwise it waits as
        long as necessary.
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
        """Return whether a partition's last try failed, or it needs another producer id: do not submit more now."""
        queue = self._queues.get((topic, partition))
        return queue is not None and (queue.failures > 0 or (queue.stale and queue.flying))

    def blocked_s(self, topic: str, partition: int) -> float:
        """Return for how many seconds a partition has been failing, 0 if it is not."""
        queue = self._queues.get((topic, partition))
        return self._loop.time() - queue.failing_since if queue is not None and queue.failures else 0.0

    def trouble(self, topic: str, partition: int) -> str:
        """Return why a partition's last try failed, an empty string if it did not or has no result yet."""
        queue = self._queues.get((topic, partition))
        return queue.why if queue is not None and queue.failures else ""

    def recall(self, topic: str, partition: int) -> None:
        """Fail the batches after a partition's first one with Recalled."""
        queue = self._queues.get((topic, partition))
        if queue is not None:
            queue.recall()

    def give_up(self, topic: str, partition: int) -> None:
        """Fail the first batch of a failing partition with GaveUp, unless it is in flight right now."""
        queue = self._take_back(topic, partition, GaveUp(topic, partition))
        if queue is not None:
            queue.given_up = True  # the next batch is given up at its first failure

    def let_go(self, topic: str, partition: int) -> None:
        """Fail the first batch of a failing partition with Recalled, because its sender does not need it any more."""
        self._take_back(topic, partition, Recalled(topic, partition))

    def _take_back(self, topic: str, partition: int, why: SendError) -> PartitionQueue | None:
        """Fail the first batch of a failing partition with the error `why`; return its queue, or None."""
        queue = self._queues.get((topic, partition))
        if queue is None or not queue.pending or queue.flying or not queue.failures:
            return None
        queue.refuse(why)
        queue.failures = 0
        queue.flying = True  # the batch may be stored after all: its number must not be used again
        self._spawn(self._renumber(queue, "given up"))
        return queue

    def forget_idle(self) -> None:
        """Forget the partitions to which no batch was submitted since the last call."""
        self._spawn(self._forget(self._idle()))
        for queue in self._queues.values():
            queue.used = False

    def _idle(self) -> list[PartitionQueue]:
        return [queue for queue in self._queues.values() if queue.is_idle]

    async def _forget(self, idle: list[PartitionQueue]) -> None:
        """Forget queues, unless they are used in the meantime.

        A new queue for the same partition counts from 0 again. It gets another producer id; otherwise a broker would
        take its first batch for the one stored under that number.
        """
        if not idle:
            return
        try:
            self._producer = await new_producer_id(self._cluster)
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
                if self._recalls or queue.pending[0][0].count >= _ENOUGH:
                    self._loop.call_soon(self._dispatch)
                else:
                    self._loop.call_later(_LINGER_S, self._dispatch)

    def _dispatch(self) -> None:
        """Send the batches that are ready, one request per broker and kind of connection."""
        self._kicked = False
        ready, self._ready = self._ready, {}
        now, unknown = self._loop.time(), set()
        requests = defaultdict[tuple[int, Connection], list[PartitionQueue]](list)
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
                queue.flying = True
                unknown.add(queue)
                continue
            queue.flying, queue.producer = True, queue.producer or self._producer
            requests[leader, self._requests.connection(queue)].append(queue)
        for (leader, connection), queues in requests.items():
            for begin in range(0, len(queues), _REQUEST_QUEUES):
                self._requests.send(leader, connection, queues[begin : begin + _REQUEST_QUEUES])
        if unknown:
            self._spawn(self._find(unknown))

    def _spawn(self, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            end_process(error)  # its queues would wait forever

    async def _find(self, queues: set[PartitionQueue]) -> None:
        """Find the leaders of queues that have none."""
        missing = await self._leaders.look({queue.topic for queue in queues})
        for queue in queues:
            fewer = 0 < self._cluster.partitions(queue.topic) <= queue.partition
            if self._cluster.leader(queue.topic, queue.partition) is not None:
                self._land(queue)
            elif fewer and self._recalls:  # its sender chooses another partition for it
                self._fail(queue, PartitionGone(queue.topic, queue.partition))
            elif fewer or queue.topic in missing:
                queue.gone += 1
                if queue.gone >= _GONE_AFTER:
                    self._fail(queue, TopicUnknown(queue.topic, queue.partition))
                else:
                    self._retry(queue, "the topic does not exist")
            else:
                self._retry(queue, "it has no leader")

    def _answered(self, queue: PartitionQueue, code: int, offset: int, timestamp_ms: int) -> None:
        if code in (0, kafka.DuplicateSequenceNumber.errno):
            queue.stored(offset, timestamp_ms)
            self._wake(queue)
            return
        if code in _RENUMBER:
            self._spawn(self._renumber(queue, kafka.for_code(code).__name__))
            return
        failure = permanent(queue.topic, code)
        if failure is not None:
            self._fail(queue, failure)
            return
        self._retry(queue, kafka.for_code(code).__name__)
        self._spawn(self._leaders.learn({queue.topic}))  # another broker may lead by now, whatever the error

    def _unanswered(self, queues: list[PartitionQueue], topics: set[str], why: str) -> None:
        for queue in queues:
            self._retry(queue, why)
        self._spawn(self._leaders.learn(topics))

    async def _renumber(self, queue: PartitionQueue, why: str) -> None:
        """Give the queue a new producer id; its batch was not stored under the old one."""
        if not queue.stale:
            sentence = "%s-%d: %s. Continuing with a new producer id"
            log.warning(sentence, queue.topic, queue.partition, why, extra=self._about(queue))
        queue.stale = True
        try:
            producer = await new_producer_id(self._cluster)
        except kafka.KafkaError as error:
            self._retry(queue, repr(error))
            return
        queue.renumber(producer)
        self._land(queue)

    def _about(self, queue: PartitionQueue) -> dict[str, str | int]:
        """Return the extra fields of a log line about a queue."""
        destination = {"destination": named(self._name, queue.topic)} if self._recalls else {}
        return {"topic": queue.topic, "partition": queue.partition, **destination}

    def _retry(self, queue: PartitionQueue, why: str) -> None:
        if not queue.pending:  # its batch was given up: the next one is tried, because a failing queue accepts no more
            queue.failures, queue.flying = 0, False
            return
        if not queue.failures:
            queue.failing_since = queue.failing_since if queue.given_up else self._loop.time()
            if self._recalls:
                queue.recall()
        queue.back_off(why, self._loop.time())
        if queue.failures in (1, 10) or queue.failures % 100 == 0:
            tp = f"{queue.topic}-{queue.partition}{self._where}"
            log.warning("%s: not sent (%s), attempt %d", tp, why, queue.failures, extra=self._about(queue))
        self._land(queue)

    def _fail(self, queue: PartitionQueue, failure: SendError) -> None:
        """Fail the first batch with `failure`; its number is used again, unless the broker may have stored it.

        A batch that was sent before may be stored although it is refused now: brokers check timestamps and permissions
        before they look for duplicates.
        """
        queue.refuse(failure)
        queue.stale = queue.stale or queue.failures > 0
        queue.failures = queue.gone = 0
        self._loop.call_soon(self._land, queue)  # after the future's callbacks, which may submit its parts first

    def _land(self, queue: PartitionQueue) -> None:
        queue.flying = False
        self._wake(queue)
