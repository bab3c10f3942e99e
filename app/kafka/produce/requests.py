"""Requests in flight: their connections, and the handling of slow answers.

A broker answers a connection's requests one after the other, so one partition whose replicas are slow would delay all
that share its request or connection. If an answer is slow, each batch of the request is sent again on its own (the
broker recognises its number and stores it once), and the others use the first connection without late answers. Opened
connections stay open for minutes.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import aiokafka.errors as kafka
from aiokafka.protocol.produce import ProduceRequest

from app.kafka.metadata.cluster import Cluster
from app.kafka.produce.batch import Batch
from app.kafka.produce.partition_queue import PartitionQueue

#: A kind of connection: a broker has one of each kind in use.
Connection = Hashable

_ACKS_ALL = -1
#: Seconds after which a request's queues are separated because its answer is slow; and how often at most.
_SLOW_S, _PART_EVERY_S = 0.15, 1.0


class InFlightRequest:
    """A request in flight: queues, their batches, and the numbers of the attempts."""

    __slots__ = ("began_s", "group", "leader", "sent", "timer")

    def __init__(
        self, leader: int, group: Connection, sent: list[tuple[PartitionQueue, Batch, int]], began_s: float
    ) -> None:
        """Create a request without a timer for slowness."""
        self.leader, self.group, self.sent, self.began_s = leader, group, sent, began_s
        self.timer: asyncio.TimerHandle | None = None

    def over(self) -> None:
        """Stop the timer."""
        if self.timer is not None:
            self.timer.cancel()


class Requests:
    """Sends the first batches of queues, and reports their results."""

    def __init__(
        self,
        cluster: Cluster,
        timeout_ms: int,
        fatal: Callable[[BaseException], object],
        answered: Callable[[PartitionQueue, int, int, int], None],
        unanswered: Callable[[list[PartitionQueue], set[str], str], None],
        *,
        parting: bool,
    ) -> None:
        """Send through `cluster`, whose brokers wait for their replicas for `timeout_ms`.

        With `parting`, queues are separated if an answer is slow. `answered` is called with a queue, an error code, an
        offset and a timestamp; `unanswered` with the queues whose batch must be sent again, the topics of the request,
        and the cause; `fatal` with unexpected errors.
        """
        self._cluster, self._timeout_ms, self._parting = cluster, timeout_ms, parting
        self._fatal, self._answered, self._unanswered = fatal, answered, unanswered
        #: Punctual's own topics and destinations on the same brokers do not wait for each other.
        self._kind = "destinations" if parting else "own"
        self._healthy, self._parted = 0, -_PART_EVERY_S
        #: The number of requests without an answer, by kind of connection.
        self._flights = Counter[Connection]()
        self._answers = set[asyncio.Future[Any]]()
        self._stopped = False
        self._loop = asyncio.get_running_loop()

    def connection(self, queue: PartitionQueue) -> Connection:
        """Return the kind of connection that a queue uses."""
        if queue.alone:
            return queue.topic, queue.partition
        return self._kind, "quarantine" if queue.failures else self._healthy

    def stop(self) -> None:
        """Abandon the requests in flight."""
        self._stopped = True
        for answer in list(self._answers):
            answer.cancel()

    def send(self, leader: int, group: Connection, queues: list[PartitionQueue]) -> None:
        """Send the first batch of each queue in one request on a kind of connection, and report the results."""
        topics: dict[str, list[tuple[int, bytes]]] = {}
        sent = []
        for queue in queues:
            queue.attempt += 1
            sent.append((queue, queue.pending[0][0], queue.attempt))
            topics.setdefault(queue.topic, []).append((queue.partition, queue.build()))
        request = ProduceRequest(None, _ACKS_ALL, self._timeout_ms, list(topics.items()))
        in_flight = InFlightRequest(leader, group, sent, self._loop.time())
        self._flights[group] += 1
        if self._parting:
            self._watch(in_flight)
        answer = self._cluster.client.begin(leader, request, group=group)
        self._answers.add(answer)
        answer.add_done_callback(partial(self._over, in_flight))  # a task would take two more turns of the event loop

    def _over(self, in_flight: InFlightRequest, answer: "asyncio.Future[Any]") -> None:
        """Report the results of a request."""
        self._answers.discard(answer)
        in_flight.over()
        self._flights[in_flight.group] -= 1
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            try:
                self._take(in_flight, answer.result())
            except Exception as unforeseen:  # noqa: BLE001 - otherwise its queues would wait forever
                self._fatal(unforeseen)
        elif isinstance(error, kafka.KafkaError):
            again = [one for one, batch, attempt in in_flight.sent if one.attempt == attempt and one.waits_for(batch)]
            self._unanswered(again, {queue.topic for queue, *_ in in_flight.sent}, repr(error))
        else:
            self._fatal(error)

    def _take(self, in_flight: InFlightRequest, response: Any) -> None:
        answers = {
            (topic, partition): (error, offset, timestamp)
            for topic, partitions in response.topics
            for partition, error, offset, timestamp, *_ in partitions
        }
        slow = self._parting and self._loop.time() - in_flight.began_s > _SLOW_S
        for queue, batch, attempt in in_flight.sent:
            code, *stored = answers[queue.topic, queue.partition]
            if queue.waits_for(batch) and (queue.attempt == attempt or not code):
                queue.alone = slow and len(in_flight.sent) == 1
                self._answered(queue, code, *stored)

    def _watch(self, in_flight: InFlightRequest) -> None:
        in_flight.timer = self._loop.call_later(_SLOW_S, self._look, in_flight)

    def _look(self, in_flight: InFlightRequest) -> None:
        """Separate the queues of a request, because its answer is slow."""
        # Queues that another answer has served in the meantime wait for no answer.
        waiting = [queue for queue, batch, _ in in_flight.sent if queue.waits_for(batch)]
        if not self._part(in_flight.leader, in_flight.group, waiting):
            self._watch(in_flight)

    def _part(self, leader: int, group: Connection, queues: list[PartitionQueue]) -> bool:
        """Separate the queues of a slow request: sent one by one, their batches show which partition is slow.

        Return whether this was done: other slow requests have to wait for their turn.
        """
        if len(queues) > 1 and self._loop.time() - self._parted < _PART_EVERY_S:
            return False
        if group == (self._kind, self._healthy):
            self._healthy = next(number for number in itertools.count() if not self._flights[self._kind, number])
        for queue in queues:
            if not queue.failures:
                queue.failing_since, queue.why = self._loop.time(), "its broker's answer is slow"
                queue.recall()
            queue.failures += 1
            queue.alone = True
            if len(queues) > 1:
                self._parted = self._loop.time()
                self._loop.call_soon(self._send_alone, leader, queue)
        return True

    def _send_alone(self, leader: int, queue: PartitionQueue) -> None:
        if queue.flying and queue.pending and not self._stopped:  # otherwise it was answered in the meantime
            self.send(leader, self.connection(queue), [queue])
