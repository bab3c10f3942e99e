"""Exactly once: deliveries on our own cluster are in the transactions of their partitions' steps."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from app.engine.deliver.backoff import RouteBackoff
from app.engine.deliver.delivery_batch import DeliveryBatch
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.partition.partition import Partition
from app.engine.steps.route import Route
from app.kafka.errors import SendError
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.produce.batch import TARGET_BYTES
from app.kafka.transactions.transaction import Untaken
from tables import Entry
from tables.changes import PlainRows

log = logging.getLogger(__name__)


class TransactionalDeliveryBatch(DeliveryBatch):
    """A batch that is delivered in a step of its rows' partition."""

    __slots__ = ("_dispatcher", "chosen_s")

    def __init__(self, route: Route, limit: int, dispatcher: "TransactionalDispatcher") -> None:
        """Begin an empty batch for a route, of at most `limit` bytes; report its outcome to `dispatcher`."""
        super().__init__(route, limit, transactional=True)
        self._dispatcher = dispatcher
        self.chosen_s = asyncio.get_running_loop().time()

    def taken(self) -> None:
        """Note that the destination takes messages."""
        self._dispatcher.taken(self.route)

    def refused(self, error: SendError) -> None:
        """Reject the rows, or send them in smaller batches, because the destination will never take this batch.

        The destination answers, so that its other messages need not wait.
        """
        self._dispatcher.taken(self.route)
        self._dispatcher.refused(self, error)

    def unsent(self) -> None:
        """Put the batch in front of all waiting batches, because it left its step without being sent."""
        owner, _ = self.runs[0]
        owner.enqueue(self, first=True)

    def failed(self, error: Untaken) -> None:
        """Let messages for the destination wait if this is the batch that it has not taken."""
        if self.batch is error.batch and error.error is None:
            self._dispatcher.failed(self.route, error)

    def struck(self, error: Untaken) -> bool:
        """Return whether `error` keeps this batch from delivery: it caused the error, or its destination must wait.

        After a refusal for good, the other batches of the partition do not wait: smaller batches take the place of the
        refused batch, and must not overtake them.
        """
        if self.route[1:] == (error.topic, error.partition):
            return error.error is None or self.batch is error.batch
        return self._dispatcher.blocked(self.route) or not self._dispatcher.found(self.route)

    def untaken(self, error: Untaken) -> None:
        """Reject or release the rows of this batch, which was taken out of its step."""
        self._dispatcher.untaken(self, error)


class TransactionalDispatcher(Dispatcher):
    """Hands deliveries on our own cluster to their partitions; messages for other clusters go at least once."""

    def __init__(self, *args: Any) -> None:
        """Begin with every route free; `args` are those of Dispatcher."""
        super().__init__(*args)
        self._failures = RouteBackoff(asyncio.get_running_loop().time)
        self._troubles: dict[Route, str] = {}

    def _new_delivery(self, route: Route) -> DeliveryBatch:
        return super()._new_delivery(route) if route[0] is not None else self._new_transactional(route)

    def _new_transactional(self, route: Route) -> TransactionalDeliveryBatch:
        return TransactionalDeliveryBatch(route, self.limits.get(route[:2], TARGET_BYTES), self)

    def add(self, partition: Partition, key: bytes, entry: Entry, route: Route, now: int) -> None:
        """Add a row to the partition's next step; if its route has failed, no other row is sent until its outcome.

        A request has one batch per destination partition, so rows join the waiting batch of their route. `now` (epoch
        ms) is the timestamp of the record.
        """
        if route[0] is not None:
            super().add(partition, key, entry, route, now)
            return
        partition.in_flight.claim(key, entry, route)
        row, delivery = (partition, key), partition.waiting(route)
        if delivery is None or not delivery.append(row, entry, now):
            fresh = self._new_transactional(route)
            fresh.append(row, entry, now)
            partition.enqueue(fresh)
        self._failures.trying(route)

    def add_plain(self, partition: Partition, rows: PlainRows, route: Route, now: int) -> None:
        """Add plain rows from plain_routes() to the partition's next step."""
        partition.in_flight.claim_all(rows, route)
        delivery, begin = partition.waiting(route), 0
        if delivery is not None:
            begin = delivery.extend(partition, rows, begin, now)
        while begin < len(rows):
            fresh = self._new_transactional(route)
            begin += fresh.extend(partition, rows, begin, now)
            partition.enqueue(fresh)
        self._failures.trying(route)

    def _submit(self, delivery: DeliveryBatch, *, first: bool = False) -> None:
        if not isinstance(delivery, TransactionalDeliveryBatch):
            super()._submit(delivery, first=first)
            return
        owner, _ = delivery.runs[0]
        owner.enqueue(delivery, first=first)

    def failed(self, route: Route, error: Untaken) -> None:
        """Let messages wait for a route that has not taken a batch, and for others that fail for the same reason.

        A topic whose replicas are down refuses batches in many partitions. A deleted topic or partition gets no wait.
        """
        if not self.found(route):
            return
        cluster = self._targets[None].cluster
        short = cluster.as_short_as(error.topic, error.partition) if error.short else ()
        backoff_s = self._failures.failed(route, [(None, error.topic, number) for number in short])
        self._troubles[route] = str(error)
        if backoff_s is not None:
            about = {"destination": error.topic, "topic": error.topic, "partition": error.partition}
            log.warning("%s: retrying in %.1f s", error, backoff_s, extra=about)

    def refused(self, delivery: DeliveryBatch, error: SendError) -> None:
        """Reject the rows of a batch that will never be taken, or send them in smaller batches."""
        self._failed(delivery, error)

    def untaken(self, delivery: DeliveryBatch, error: Untaken) -> None:
        """Reject the rows of a batch that will never be taken, or release them if the destination may recover."""
        if error.error is not None and delivery.batch is error.batch:
            self.refused(delivery, error.error)
        else:
            self._release(delivery)

    def stuck(self, tp: TopicPartition) -> Callable[[], None]:
        """Let messages wait for a partition that holds a transaction up; return the function that ends the wait."""
        return self._failures.hold((None, *tp))

    def blocked(self, route: Route) -> bool:
        """Return whether messages for this route should wait."""
        return (self._failures.waits(route) and not self.hopeless(route)) or super().blocked(route)

    def steady(self, route: Route) -> bool:
        """Return whether a free route stays free; a route that has failed is tried with one row."""
        return super().steady(route) and route not in self._failures

    def hopeless(self, route: Route) -> bool:
        """Return whether a route has failed for longer than DELAY_GIVE_UP, and is not due to be tried again."""
        limit_s = self._destinations.give_up_ms / 1000
        return (bool(limit_s) and self._failures.seconds(route) >= limit_s) or super().hopeless(route)

    def give_up(self, route: Route) -> bool:
        """Give up on a route if it has failed for longer than DELAY_GIVE_UP; return whether it has."""
        return self.hopeless(route) or super().give_up(route)

    def taken(self, route: Route) -> None:
        """Note that a route takes messages."""
        self._failures.taken(route)
        self._troubles.pop(route, None)

    def trouble(self, route: Route) -> str:
        """Return why messages for this route wait, empty if they do not or the reason is not known."""
        return self._troubles.get(route) or super().trouble(route)
