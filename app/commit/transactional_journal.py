"""Exactly once: a step, deliveries included, is one transaction of its partition's own transactional id.

Read-committed readers see all of it or nothing. Local state changes only after the commit, and a partition's new owner
fences the old one before it reads the changelog's end, so a zombie can add nothing.
"""

import contextlib
import fnmatch
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from app.clock import Clock
from app.commit.adaptive_timeout import Patience
from app.commit.journal import Journal, Outgoing
from app.deliver.backoff import Failures
from app.deliver.dispatcher import Courier, Load, Target
from app.errors import NotOwner, TransactionForbidden
from app.kafka import Ack, Cluster, Sender
from app.kafka.errors import SendError
from app.kafka.metadata.reader import PartitionReader, WrittenReader
from app.kafka.metadata.topic_partition import Place
from app.kafka.produce.batch import Batch
from app.kafka.transactions.coordinator import Fenced, IdForbidden
from app.kafka.transactions.hanging import Lookout
from app.kafka.transactions.id_pool import Relay
from app.kafka.transactions.transaction import Transactions, Untaken
from app.partition.partition import Partition, Way
from app.settings import Settings
from app.steps.outcomes import Delivered
from app.steps.step import Step
from tables import Changes, DelayTable, Entry

log = logging.getLogger(__name__)


class ExactJournal(Journal):
    """Commits steps as transactions."""

    def __init__(self, stuck: Callable[[Place], Callable[[], None]], *args: Any) -> None:
        """Begin with no partition; `stuck` hears of a place that holds a transaction up, as Relay says."""
        super().__init__(*args)
        self._relays: dict[int, Relay] = {}
        self._lookout = Lookout(self._cluster, self._may_write)
        self._stuck = stuck
        self._patience = Patience()

    def reader(self, partition: int, offset: int) -> PartitionReader:
        """Give a reader of a partition's changelog, whose last records may be committed and not readable yet."""
        return WrittenReader(self._cluster, self._settings.changelog, partition, offset)

    async def fence(self, partition: int) -> None:
        """Take over the partition's transactional ids: whoever had them can write no more."""
        relay = self._relays.get(partition)
        if relay is None:
            home = (self._settings.changelog, partition)
            again = (self._settings.progress, 0)
            name = f"{self._settings.app_id}-{partition}"
            relay = self._relays[partition] = Relay(self._cluster, name, home, again, self._lookout, self._stuck)
        with _owning(partition):
            await relay.fence()

    def _may_write(self, topic: str) -> bool:
        """Tell whether transactions may have batches for a topic."""
        patterns = itertools.chain.from_iterable(self._settings.destinations.values())
        return topic in self._settings.internal_topics or any(fnmatch.fnmatchcase(topic, one) for one in patterns)

    async def commit(self, partition: int, step: Step) -> None:
        """Commit a step, its deliveries first of all, in one transaction.

        Raises Untaken if a destination does not take its batch: the transaction is aborted, nothing has happened.
        Raises NotOwner if another worker has taken the partition.
        """
        store = self._table.stores[partition]
        with _owning(partition):
            end = await self._relays[partition].run(lambda transactions: self._once(transactions, partition, step))
        store.apply(step.changes, end, store.writer, step.now_ms)
        self.reached("applied", step)

    async def _once(self, transactions: Transactions, partition: int, step: Step) -> int:
        """Make a transaction of a step; give the offset after it in the changelog."""
        await self._deliver(transactions, partition, step)
        self.reached("before-events", step)
        batch = self._batch(step.changes, self._table.stores[partition].writer, step.now_ms)
        own = [*self._outgoing(partition, step), (self._settings.changelog, partition, batch)]
        with self._patience.measured():
            acks = await self._send_own(transactions, own)
        self.reached("changelog-acked", step)
        await transactions.commit()
        self.reached("committed", step)
        return acks[-1].offset + batch.count

    async def _send_own(self, transactions: Transactions, batches: Sequence[Outgoing]) -> list[Ack]:
        """Send to our own topics, which must take what they get: there is no going on without them."""
        acks = []
        try:
            for ack in await transactions.send(batches):
                if isinstance(ack, SendError):
                    raise ack
                acks.append(ack)
        except Untaken as error:
            raise error.error or error from error
        return acks

    async def _deliver(self, transactions: Transactions, partition: int, step: Step) -> None:
        if not step.loads:
            return
        self.reached("before-send", None)
        batches = [(load.way[1], load.way[2], load.batch) for load in step.loads]
        own = [(self._settings.changelog, partition)]
        if self._settings.events == "on":
            own.append((self._settings.events_topic, partition))
        acks = await transactions.send(batches, self._patience.limit_s, own)
        self.reached("acked", None)
        for load, ack in zip(step.loads, acks, strict=True):
            if not isinstance(ack, Ack):
                load.refused(ack)
                continue
            load.taken()
            rows = [(key, offset) for offset, (_, key) in enumerate(load.rows, ack.offset)]
            step.settle(step, Delivered(rows, load.way[1], load.way[2], load.sent_ms))

    async def claim(self, partition: int, now_ms: int) -> int:
        """Stamp the changelog with a higher epoch; nobody else can have written since the fence.

        Gives the broker's time of the stamp.
        """
        store = self._table.stores[partition]
        epoch = self._next_epoch(partition)
        batch = self._batch(Changes(), epoch, now_ms)
        ack = await self._write(partition, batch)
        store.apply(Changes(), ack.offset + batch.count, epoch, now_ms)
        return ack.timestamp_ms

    async def check_alone(self, partition: int, now_ms: int) -> None:  # noqa: ARG002 - see Journal
        """See that all transactions are ended everywhere, and that nobody has taken the partition."""
        with _owning(partition):
            await self._relays[partition].tend()

    async def _append(self, partition: int, batch: Batch, now_ms: int, *, last: bool) -> None:
        store = self._table.stores[partition]
        ack = await self._write(partition, batch)
        if last:
            store.doubt.keys.clear()
        store.apply(Changes(), ack.offset + batch.count, store.writer, now_ms)

    async def _write(self, partition: int, batch: Batch) -> Ack:
        async def once(transactions: Transactions) -> Ack:
            acks = await self._send_own(transactions, [(self._settings.changelog, partition, batch)])
            await transactions.commit()
            return acks[0]

        return await self._relays[partition].run(once)

    def _new_batch(self, limit: int) -> Batch:
        return Batch(limit, transactional=True)


@contextlib.contextmanager
def _owning(partition: int) -> Iterator[None]:
    """Say in a sentence that the partition is owned no more."""
    try:
        yield
    except Fenced as error:
        msg = (
            f"partition {partition}: another worker has taken it, or brokers were away for longer than a transaction "
            f"may take ({error}). This process ends and is started anew."
        )
        raise NotOwner(msg) from error
    except IdForbidden as error:
        raise TransactionForbidden(error) from error


class ExactLoad(Load):
    """A load that is delivered within a step of its rows' partition."""

    __slots__ = ("_courier",)

    def __init__(self, way: Way, courier: "ExactCourier") -> None:
        """Begin empty; `courier` hears when the destination has not taken it."""
        super().__init__(way, transactional=True)
        self._courier = courier

    def taken(self) -> None:
        """Hear that the destination takes messages."""
        self._courier.taken(self.way)

    def refused(self, error: SendError) -> None:
        """Hear that the destination will never take it."""
        self._courier.refused(self, error)

    def failed(self, error: Untaken) -> None:
        """Hear that a destination of its transaction has not taken a batch."""
        if self.batch is error.batch and error.error is None:
            self._courier.failed(self.way, error)

    def struck(self, error: Untaken) -> bool:
        """Tell whether it cannot be delivered: one that fails for now has all its destination's loads wait."""
        if error.error is None and self.way[1:] == (error.topic, error.partition):
            return True
        courier = self._courier
        return self.batch is error.batch or courier.blocked(self.way) or not courier.found(self.way)

    def untaken(self, error: Untaken) -> None:
        """Leave out a destination that has not taken its batch."""
        self._courier.untaken(self, error)


class ExactCourier(Courier):
    """Hands deliveries on our own cluster to their partitions; those on other clusters go at least once."""

    def __init__(self, *args: Any) -> None:
        """Begin with every way free."""
        super().__init__(*args)
        self._failures = Failures(self._loop.time)
        self._troubles: dict[Way, str] = {}

    def _load(self, way: Way) -> Load:
        return super()._load(way) if way[0] is not None else ExactLoad(way, self)

    def add(self, partition: Partition, key: bytes, entry: Entry, way: Way, now: int) -> None:
        """Take a row along in the partition's next step, which is due `now`; one for a way that has failed goes alone.

        A partition has one batch in a request: several of a way would take as many turns.
        """
        if way[0] is not None:
            super().add(partition, key, entry, way, now)
            return
        partition.claim(key, entry, way)
        row, load = (partition, key), partition.waiting(way)
        if load is None or not load.append(row, entry, now):
            fresh = ExactLoad(way, self)
            fresh.append(row, entry, now)
            partition.fire(fresh)
        self._failures.trying(way)

    def _submit(self, load: Load, *, first: bool = False) -> None:
        if not isinstance(load, ExactLoad):
            super()._submit(load, first=first)
            return
        owner, _ = load.rows[0]
        owner.fire(load, first=first)

    def failed(self, way: Way, error: Untaken) -> None:
        """Let messages wait for a destination that has not taken a batch, and for those that will not either.

        A topic whose replicas are away refuses in many partitions. What is not there any more is not waited for.
        """
        if not self.found(way):
            return
        cluster = self._targets[None].cluster
        short = cluster.as_short_as(error.topic, error.partition) if error.short else ()
        backoff_s = self._failures.failed(way, [(None, error.topic, number) for number in short])
        self._troubles[way] = str(error)
        if backoff_s is not None:
            log.warning("%s: tried again in %.1f s", error, backoff_s)

    def refused(self, load: Load, error: SendError) -> None:
        """End the rows of a load that will never be taken, or send them in smaller ones."""
        self._failed(load, error)

    def untaken(self, load: Load, error: Untaken) -> None:
        """End the rows of a load that will never be taken; let those wait whose destination may mend."""
        if error.error is not None and load.batch is error.batch:
            self.refused(load, error.error)
        else:
            owner, _ = load.rows[0]
            owner.release([key for _, key in load.rows], load.way)

    def stuck(self, place: Place) -> Callable[[], None]:
        """Let messages wait for a partition that holds a transaction up; gives what is to be called when it doesn't."""
        return self._failures.hold((None, *place))

    def blocked(self, way: Way) -> bool:
        """Tell whether messages for this way had better wait."""
        return (self._failures.waits(way) and not self.hopeless(way)) or super().blocked(way)

    def steady(self, way: Way) -> bool:
        """Tell whether a way that is free stays so: one that has failed is tried with one row."""
        return super().steady(way) and way not in self._failures

    def hopeless(self, way: Way) -> bool:
        """Tell whether a way has not taken messages for longer than DELAY_GIVE_UP; now and then one is tried again."""
        limit_s = self._settings.give_up_ms / 1000
        return (bool(limit_s) and self._failures.seconds(way) >= limit_s) or super().hopeless(way)

    def give_up(self, way: Way) -> bool:
        """Give up on a way that has failed for longer than DELAY_GIVE_UP; tell whether it has."""
        return self.hopeless(way) or super().give_up(way)

    def taken(self, way: Way) -> None:
        """Hear that a way takes messages."""
        self._failures.taken(way)
        self._troubles.pop(way, None)

    def trouble(self, way: Way) -> str:
        """Return why messages for this way wait, nothing if they do not or that is not known."""
        return self._troubles.get(way) or super().trouble(way)


def courier_and_journal(
    settings: Settings,
    clock: Clock,
    targets: dict[str | None, Target],
    cluster: Cluster,
    sender: Sender,
    table: DelayTable,
) -> tuple[Courier, Journal]:
    """Give what delivers and what commits, as DELAY_GUARANTEE wants it."""
    if not settings.exactly_once:
        return Courier(settings, clock, targets), Journal(settings, cluster, sender, table)
    courier = ExactCourier(settings, clock, targets)
    return courier, ExactJournal(courier.stuck, settings, cluster, sender, table)
