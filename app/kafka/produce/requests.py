"""Requests on their way: which connections they use, and what is done when an answer is slow.

A broker answers a connection's requests one after the other, so one partition whose replicas are slow would hold up all
that share its request or its connection. When an answer is slow, each batch of the request is sent again on its own
(the broker knows it by its number and stores it once), and the others go on over the first connection on which none is
awaited: what was opened stays open for minutes.
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

#: A kind of connection: a broker has one of each that is used.
Connection = Hashable

_ACKS_ALL = -1
#: An answer that takes longer has the request's queues part company, at most so often.
_SLOW_S, _PART_EVERY_S = 0.15, 1.0


class InFlightRequest:
    """A request on its way: queues, their batches, and which attempts these are."""

    __slots__ = ("began_s", "group", "leader", "sent", "timer")

    def __init__(
        self, leader: int, group: Connection, sent: list[tuple[PartitionQueue, Batch, int]], began_s: float
    ) -> None:
        """Begin without a timer that sees whether it is slow."""
        self.leader, self.group, self.sent, self.began_s = leader, group, sent, began_s
        self.timer: asyncio.TimerHandle | None = None

    def over(self) -> None:
        """Look at it no more."""
        if self.timer is not None:
            self.timer.cancel()


class Requests:
    """Sends the first batches of queues, and tells what has come of each."""

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

        With `parting`, queues part company when an answer is slow.
        `answered` hears of a queue, an error code, an offset and a timestamp; `unanswered` of queues whose batch is to
        be sent again, the topics of the request, and why; `fatal` of what should not happen.
        """
        self._cluster, self._timeout_ms, self._parting = cluster, timeout_ms, parting
        self._fatal, self._answered, self._unanswered = fatal, answered, unanswered
        #: Punctual's own topics and destinations on the same brokers do not wait for each other.
        self._kind = "destinations" if parting else "own"
        self._healthy, self._parted = 0, -_PART_EVERY_S
        #: Requests on each kind of connection that have no answer yet.
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
        """Abandon what is in flight."""
        self._stopped = True
        for answer in list(self._answers):
            answer.cancel()

    def send(self, leader: int, group: Connection, queues: list[PartitionQueue]) -> None:
        """Send the first batch of each queue in one request by a kind of connection; tell what became of each."""
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
        """See what has come of a request."""
        self._answers.discard(answer)
        in_flight.over()
        self._flights[in_flight.group] -= 1
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            try:
                self._take(in_flight, answer.result())
            except Exception as unforeseen:  # noqa: BLE001 - else its queues would wait for good
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
        """Have the queues of a request part company, for its answer is slow."""
        # Queues that another answer has served in the meantime have nothing to wait for.
        waiting = [queue for queue, batch, _ in in_flight.sent if queue.waits_for(batch)]
        if not self._part(in_flight.leader, in_flight.group, waiting):
            self._watch(in_flight)

    def _part(self, leader: int, group: Connection, queues: list[PartitionQueue]) -> bool:
        """Free the others from a request whose answer is slow: whose fault it is shows when each is sent on its own.

        Returns whether that was done: other requests that are as slow have to wait for their turn.
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
        if queue.flying and queue.pending and not self._stopped:  # else an answer has come since they parted
            self.send(leader, self.connection(queue), [queue])
