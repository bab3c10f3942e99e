"""Sends due messages to their destinations: one batch per destination partition and cycle, with outcomes per row."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from app.base.clock import Clock
from app.engine.deliver.delivery_batch import DeliveryBatch, Row
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.deliver.missing_topics import MissingTopics
from app.engine.partition.partition import Partition
from app.engine.steps.outcomes import Delivered, Rejected, Unsent, reason_of
from app.engine.steps.route import ANY, Route, chosen
from app.kafka import Ack, fast_path
from app.kafka.errors import BatchRejected, PartitionGone, Recalled, SendError, TooLarge
from app.kafka.produce.batch import TARGET_BYTES
from app.settings.destinations import DestinationSettings
from punctual.contract.request import Reason
from tables import Entry
from tables.changes import Pairs, PlainRows

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


_first = itemgetter(0)
#: Number of messages without a key that go to one partition before it is the next partition's turn.
_TOGETHER = 16


class Dispatcher:
    """Sends due rows, and reports the outcomes to their partitions."""

    def __init__(
        self,
        destinations: DestinationSettings,
        clock: Clock,
        targets: dict[str | None, DestinationCluster],
        traces: "Traces | None" = None,
    ) -> None:
        """Deliver to `targets`, by the name of the cluster; None is our own cluster."""
        self._destinations, self._clock, self._targets, self._traces = destinations, clock, targets, traces
        #: By route: the batch that takes more rows, and the batches that the sender has.
        self._deliveries: dict[Route, DeliveryBatch] = {}
        self._sent: dict[Route, list[DeliveryBatch]] = {}
        #: By topic that refused a batch as too large: maximum bytes of a batch. Housekeeping clears it each minute.
        self.limits: dict[tuple[str | None, str], int] = {}
        self._turn = 0
        #: Number of partitions of each topic of our own cluster, at the last message for it.
        self._partition_counts: dict[str, int] = {}
        self.missing = MissingTopics(targets, self.found, destinations.give_up_ms)

    def knows(self, cluster: str | None) -> bool:
        """Return whether the cluster is configured; None is our own cluster."""
        return cluster in self._targets

    def route(self, entry: Entry) -> Route:
        """Return a message's route: the partition that Kafka's clients choose by key; without a key, any in turn."""
        target = self._targets[entry.cluster]
        partitions = target.cluster.partitions(entry.to)
        if not partitions:
            return entry.cluster, entry.to, -1
        if entry.cluster is None:
            self._partition_counts[entry.to] = partitions
        number = chosen(entry, partitions)
        if number is None:
            return self._spread(entry.cluster, entry.to, partitions, 1)
        return entry.cluster, entry.to, number

    def _spread(self, cluster: str | None, to: str, partitions: int, rows: int) -> Route:
        """Return the route of `rows` messages without a key: partitions that are not blocked take turns."""
        turn, self._turn = self._turn // _TOGETHER, self._turn + rows
        for number in ((turn + step) % partitions for step in range(partitions)):
            if not self.blocked((cluster, to, number)):
                break
        return cluster, to, number

    def plain_routes(self, rows: Pairs, begin: int) -> tuple[int, Sequence[tuple[Route, PlainRows]]]:
        """Return how many rows from index `begin` on are plain, and the routes with these rows.

        Plain rows are for topics of our own cluster that have had messages before.
        """
        run = fast_path.chosen.route(rows, begin, self._partition_counts)
        cluster, routes = self._targets[None].cluster, list[tuple[Route, PlainRows]]()
        for to, number, group in run.groups:
            partitions = cluster.partitions(to)
            if partitions != self._partition_counts[to]:
                self._partition_counts.pop(to)
                return 0, ()
            if number >= 0:
                routes.append(((None, to, number), group))
                continue
            for first in range(0, len(group), _TOGETHER):
                some = group[first : first + _TOGETHER]
                routes.append((self._spread(None, to, partitions, len(some)), some))
        return run.taken, routes

    def found(self, route: Route) -> bool:
        """Return whether a route's partition exists, or its topic if it has no partition, by the last metadata."""
        cluster, topic, partition = route
        return self._targets[cluster].cluster.partitions(topic) > max(partition, 0)

    def gone(self, route: Route) -> bool:
        """Return whether a route's topic or partition is known to be missing; if unknown, begin to look for it."""
        return not self.found(route) and self.missing.gone(route)

    def blocked(self, route: Route) -> bool:
        """Return whether messages for this route should wait."""
        cluster, topic, partition = route
        if partition == ANY:
            every = self._every(route)
            return bool(every) and all(self.blocked(one) for one in every)
        # All messages for a missing topic wait, so that later ones do not overtake earlier ones once it is found.
        if route in self.missing.asking and not self.found(route):
            return not self.hopeless(route)
        return self._targets[cluster].sender.blocked(topic, partition)

    def trouble(self, route: Route) -> str:
        """Return why messages for this route wait, empty if they do not or the reason is not known."""
        cluster, topic, partition = route
        if partition == ANY:
            return next(filter(None, map(self.trouble, self._every(route))), "")
        if partition < 0:
            return self.missing.why(cluster, topic)
        return self._targets[cluster].sender.trouble(topic, partition)

    def _every(self, route: Route) -> list[Route]:
        """Return the routes to all known partitions of a topic."""
        cluster, topic, _ = route
        return [(cluster, topic, number) for number in range(self._targets[cluster].cluster.partitions(topic))]

    def hopeless(self, route: Route) -> bool:
        """Return whether a route's topic has been looked for in vain for longer than DELAY_GIVE_UP."""
        return route in self.missing.asking and self.missing.hopeless(route)

    def steady(self, route: Route) -> bool:
        """Return whether a free route stays free while this cycle adds rows."""
        return route[2] >= 0

    def add(self, partition: Partition, key: bytes, entry: Entry, route: Route, now: int) -> None:
        """Add a row to this cycle's batch for its route; `now` (epoch ms) is the timestamp of its record."""
        partition.in_flight.claim(key, entry, route)
        row, delivery = (partition, key), self._deliveries.get(route)
        if delivery is None or not delivery.append(row, entry, now):
            if delivery is not None:
                self._submit(delivery)
            delivery = self._deliveries[route] = self._new_delivery(route)
            delivery.append(row, entry, now)

    def add_plain(self, partition: Partition, rows: PlainRows, route: Route, now: int) -> None:
        """Add plain rows from plain_routes() to this cycle's batch for their route; `now` is as for add()."""
        partition.in_flight.claim_all(rows, route)
        delivery, begin = self._deliveries.get(route), 0
        while True:
            if delivery is not None:
                begin += delivery.extend(partition, rows, begin, now)
                if begin == len(rows):
                    return
                self._submit(delivery)
            delivery = self._deliveries[route] = self._new_delivery(route)

    def _new_delivery(self, route: Route) -> DeliveryBatch:
        return DeliveryBatch(route, self.limits.get(route[:2], TARGET_BYTES), transactional=False)

    def send(self) -> None:
        """Send the batches of this cycle; while a route's last batch is in flight, the next one takes more rows.

        The sender has one batch per partition in flight, so under load, cycles would queue batches faster than it
        sends. Rows gathered behind a batch that fails wait in the table, where they can still be cancelled.
        """
        deliveries, self._deliveries = self._deliveries, {}
        for route, delivery in deliveries.items():
            if route in self._sent and self.blocked(route):
                self._release(delivery)
            elif route in self._sent:
                self._deliveries[route] = delivery
            else:
                self._submit(delivery)

    def _submit(self, delivery: DeliveryBatch, *, first: bool = False) -> None:
        cluster, topic, partition = delivery.route
        delivery.sent_ms = self._clock.wall_ms()
        owners = set(map(_first, delivery.runs))
        for owner in owners:
            owner.passed("before-send")
        self._sent.setdefault(delivery.route, []).append(delivery)
        acked = self._targets[cluster].sender.submit(topic, partition, delivery.batch, first=first)
        for owner in owners:
            owner.passed("sent")
        acked.add_done_callback(lambda future: self._ended(delivery, future))

    def _ended(self, delivery: DeliveryBatch, acked: asyncio.Future[Ack]) -> None:
        self._sent[delivery.route].remove(delivery)
        if not self._sent[delivery.route]:
            del self._sent[delivery.route]
        if acked.cancelled():
            return
        error, following = acked.exception(), self._deliveries.pop(delivery.route, None)
        if error is None:
            self._delivered(delivery, acked.result())
        elif isinstance(error, (Recalled, PartitionGone)):  # rows wait, or go to the partition of their key
            self._release(delivery)
            if following is not None:  # it must not overtake rows that are read again
                self._release(following)
            return
        elif isinstance(error, SendError):
            self._failed(delivery, error)
        else:
            raise error
        if following is not None:
            self._submit(following)

    def withdraw(self, held_back: Callable[[Route], bool]) -> None:
        """Take back the batches that are not in flight yet on routes that are `held_back`."""
        for route in [route for route in self._deliveries if held_back(route)]:
            self._release(self._deliveries.pop(route))
        for cluster, topic, partition in [route for route in self._sent if held_back(route)]:
            self._targets[cluster].sender.recall(topic, partition)

    def abandon(self, partition: Partition) -> None:
        """Release the gathered rows of a partition that has stopped work; its next owner sends them."""
        routes = [route for route, delivery in self._deliveries.items() if partition in map(_first, delivery.runs)]
        for route in routes:
            self._release(self._deliveries.pop(route))

    def let_go(self) -> None:
        """Stop retries of batches without any waiting row: their partitions were revoked or have restarted."""
        for (cluster, topic, partition), deliveries in self._sent.items():
            if not any(owner.in_flight.waits(key) for delivery in deliveries for owner, key in delivery.rows):
                self._targets[cluster].sender.let_go(topic, partition)

    def _release(self, delivery: DeliveryBatch) -> None:
        for owner, rows in delivery.runs:
            owner.release(rows, delivery.route)

    def _failed(self, delivery: DeliveryBatch, error: SendError) -> None:
        """End a batch that will never be taken; split it until the row that causes the error is alone."""
        count = delivery.batch.count
        if isinstance(error, TooLarge) and count > 1:
            to, half = delivery.route[:2], delivery.batch.size // 2
            self.limits[to] = min(half, self.limits.get(to, half))
            self._again(delivery.route, delivery.rows)
        elif isinstance(error, BatchRejected) and count > 1:
            rows, middle = list(delivery.rows), count // 2
            # The later half first, because each batch is put in front of all waiting batches.
            self._again(delivery.route, rows[middle:])
            self._again(delivery.route, rows[:middle])
        else:
            if self._traces is not None:
                self._traces.sent(delivery, error)
            for owner, key in delivery.rows:
                owner.tell(Rejected(key, reason_of(error), str(error)))

    def _delivered(self, delivery: DeliveryBatch, ack: Ack) -> None:
        if self._traces is not None:
            self._traces.sent(delivery)
        offset = ack.offset
        for owner, rows in delivery.runs:
            owner.passed("acked")
            owner.tell(Delivered(rows, offset, delivery.route[1], delivery.route[2], delivery.sent_ms))
            offset += len(rows)

    def _again(self, route: Route, rows: Iterable[Row]) -> None:
        """Send rows again in batches of their own, before all waiting batches."""
        deliveries = [self._new_delivery(route)]
        for owner, key in rows:
            entry = owner.claims.get(key)
            if entry is None:  # its partition has restarted, and sends it itself
                continue
            if entry.commands:
                owner.tell(Unsent(key))
                continue
            row = ((owner, key), entry, self._clock.wall_ms())
            if not deliveries[-1].append(*row):
                deliveries.append(self._new_delivery(route))
                deliveries[-1].append(*row)
        for delivery in reversed(deliveries):
            if delivery.runs:
                self._submit(delivery, first=True)

    def give_up(self, route: Route) -> bool:
        """Give up on a route if it has been blocked for longer than DELAY_GIVE_UP; return whether it has."""
        cluster, topic, partition = route
        limit_s = self._destinations.give_up_ms / 1000
        sender = self._targets[cluster].sender
        if partition == ANY:
            given_up = [self.give_up(one) for one in self._every(route)]
            return any(given_up)
        if partition < 0:
            return self.hopeless(route)
        if not limit_s or sender.blocked_s(topic, partition) < limit_s:
            return False
        sender.give_up(topic, partition)
        return True

    def refuse(self, partition: Partition, key: bytes, entry: Entry, reason: Reason, sentence: str) -> None:
        """Reject a row without sending it."""
        partition.in_flight.claim(key, entry)
        partition.tell(Rejected(key, reason, sentence))
