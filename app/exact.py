"""Exactly once: a step, deliveries included, is one transaction of its partition's own transactional id.

Read-committed readers see all of it or nothing. Local state changes only after the commit, and a partition's new owner
fences the old one before it reads the changelog's end, so a zombie can add nothing.
"""

import fnmatch
import itertools
import logging
import math
import random
from collections.abc import Callable, Hashable
from typing import Any

from app.clock import Clock
from app.deliver import Courier, Load, Target
from app.errors import NotOwner
from app.journal import Journal, Outgoing
from app.kafka import Ack, Cluster, Sender
from app.kafka.batch import Batch
from app.kafka.coordinator import Fenced
from app.kafka.markers import Lookout
from app.kafka.place import Place
from app.kafka.reader import PartitionReader, WrittenReader
from app.kafka.relay import Relay
from app.kafka.transaction import Transactions, Untaken
from app.outcome import Delivered
from app.partition import Partition, Way
from app.patience import Patience
from app.settings import Settings
from app.step import Step
from tables import Changes, DelayTable, Entry

log = logging.getLogger(__name__)

_BACKOFF_S, _BACKOFF_MAX_S = 0.25, 5.0
#: Another message is tried if nothing is heard of the first one after a failure.
_PROBE_S = 2.0


class ExactJournal(Journal):
    """Commits steps as transactions."""

    def __init__(self, stuck: Callable[[frozenset[Place]], Callable[[], None]], *args: Any) -> None:
        """Begin with no partition; `stuck` hears of places that hold a transaction up, as Relay says."""
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
            name = f"{self._settings.app_id}-{partition}"
            relay = self._relays[partition] = Relay(self._cluster, name, home, self._lookout, self._stuck)
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
        try:
            end = await self._relays[partition].run(lambda transactions: self._once(transactions, partition, step))
        except Fenced as error:
            msg = (
                f"partition {partition}: another worker has taken it ({error}). This process ends and is started anew."
            )
            raise NotOwner(msg) from error
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

    async def _send_own(self, transactions: Transactions, batches: list[Outgoing]) -> list[Ack]:
        """Send to our own topics, which must take what they get: there is no going on without them."""
        try:
            return await transactions.send(batches)
        except Untaken as error:
            raise error.error or error from error

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
            load.taken()
            rows = [(row.key, ack.offset + index) for index, row in enumerate(load.rows)]
            step.settle(Delivered(rows, load.way[1], load.way[2], load.sent_ms))

    async def claim(self, partition: int, now_ms: int) -> int:
        """Stamp the changelog with a higher epoch; nobody else can have written since the fence.

        Gives the broker's time of the stamp.
        """
        store = self._table.stores[partition]
        epoch, batch = store.writer + 1, self._batch(Changes(), store.writer + 1, now_ms)
        ack = await self._write(partition, batch)
        store.apply(Changes(), ack.offset + batch.count, epoch, now_ms)
        return ack.timestamp_ms

    async def check_alone(self, partition: int, now_ms: int) -> None:  # noqa: ARG002 - see Journal
        """See that all transactions are ended everywhere, and that nobody has taken the partition."""
        await self._relays[partition].tend()

    async def _append(self, partition: int, batch: Batch, now_ms: int, *, last: bool) -> None:
        store = self._table.stores[partition]
        ack = await self._write(partition, batch)
        if last:
            store.doubt.keys.clear()
        store.apply(Changes(), ack.offset + batch.count, store.writer, now_ms)

    async def _write(self, partition: int, batch: Batch) -> Ack:
        async def once(transactions: Transactions) -> Ack:
            acks = await transactions.send([(self._settings.changelog, partition, batch)])
            await transactions.commit()
            return acks[0]

        return await self._relays[partition].run(once)

    def _new_batch(self, limit: int) -> Batch:
        return Batch(limit, transactional=True)


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

    def struck(self, error: Untaken) -> bool:
        """Tell whether it cannot be delivered: one that fails for now has all its destination's loads wait."""
        if error.error is None and self.way[1:] == (error.topic, error.partition):
            return True
        return self.batch is error.batch or self._courier.blocked(self.way)

    def untaken(self, error: Untaken) -> None:
        """Leave out a destination that has not taken its batch."""
        self._courier.untaken(self, error)


class ExactCourier(Courier):
    """Hands deliveries on our own cluster to their partitions; those on other clusters go at least once."""

    def __init__(self, *args: Any) -> None:
        """Begin with every way free."""
        super().__init__(*args)
        #: Ways that do not take messages: until when they wait, since when they fail, and how often they have.
        self._failing: dict[Way, tuple[float, float, int]] = {}

    def _place(self, partition: Partition, way: Way) -> Hashable:
        return way if way[0] is not None else (partition.number, way)

    def _load(self, way: Way) -> Load:
        return super()._load(way) if way[0] is not None else ExactLoad(way, self)

    def add(self, partition: Partition, key: bytes, entry: Entry, way: Way) -> None:
        """Take a due row along in this cycle; the first one for a way that has failed goes alone.

        If it fails again, only its own partition's transaction was held up.
        """
        super().add(partition, key, entry, way)
        if way in self._failing:
            self._failing[way] = (self._loop.time() + _PROBE_S, *self._failing[way][1:])

    def _submit(self, load: Load, *, first: bool = False) -> None:
        if not isinstance(load, ExactLoad):
            super()._submit(load, first=first)
            return
        load.sent_ms = self._clock.wall_ms()
        load.rows[0].partition.fire(load, first=first)

    def untaken(self, load: Load, error: Untaken) -> None:
        """End the rows of a load that will never be taken; let those wait whose destination may mend."""
        if error.error is not None and load.batch is error.batch:
            self._failed(load, error.error)
            return
        now = self._loop.time()
        until, since, times = self._failing.get(load.way, (0.0, now, 0))
        if until <= now:  # else another load of this way was there at the same time
            backoff = min(_BACKOFF_MAX_S, _BACKOFF_S * 2**times) * random.uniform(0.5, 1)  # noqa: S311
            self._failing[load.way] = (now + backoff, since, times + 1)
            log.warning("%s: tried again in %.1f s", error, backoff)
        load.rows[0].partition.release([row.key for row in load.rows], load.way)

    def stuck(self, places: frozenset[Place]) -> Callable[[], None]:
        """Let messages wait for partitions that hold a transaction up; gives what is to be called when they don't."""
        now, ways = self._loop.time(), [(None, *place) for place in places]
        for way in ways:
            _, since, times = self._failing.get(way, (0.0, now, 0))
            self._failing[way] = (math.inf, since, times)

        def mended() -> None:
            for way in ways:
                if way in self._failing:
                    self._failing[way] = (0.0, *self._failing[way][1:])

        return mended

    def blocked(self, way: Way) -> bool:
        """Tell whether messages for this way had better wait."""
        until = self._failing.get(way, (0.0, 0.0, 0))[0]
        return (until > self._loop.time() and not self.hopeless(way)) or super().blocked(way)

    def hopeless(self, way: Way) -> bool:
        """Tell whether a way has not taken messages for longer than DELAY_GIVE_UP; now and then one is tried again."""
        until, since, _ = self._failing.get(way, (0.0, 0.0, 0))
        now, limit_s = self._loop.time(), self._settings.give_up_ms / 1000
        return (bool(limit_s) and until > now and now - since >= limit_s) or super().hopeless(way)

    def give_up(self, way: Way) -> bool:
        """Give up on a way that has failed for longer than DELAY_GIVE_UP; tell whether it has."""
        return self.hopeless(way) or super().give_up(way)

    def taken(self, way: Way) -> None:
        """Hear that a way takes messages."""
        self._failing.pop(way, None)


def courier_and_journal(
    settings: Settings,
    clock: Clock,
    targets: dict[str | None, Target],
    cluster: Cluster,
    sender: Sender,
    table: DelayTable,
) -> tuple[Courier, Journal]:
    """Give what delivers and what commits, as DELAY_GUARANTEE wants it."""
    if settings.guarantee != "exactly_once":
        return Courier(settings, clock, targets), Journal(settings, cluster, sender, table)
    courier = ExactCourier(settings, clock, targets)
    return courier, ExactJournal(courier.stuck, settings, cluster, sender, table)
