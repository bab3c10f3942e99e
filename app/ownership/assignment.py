"""Which partitions this worker owns, and their way from assignment to firing.

A partition fires only when it is assigned, restored to the changelog's end, claimed as its only writer, has ingested
what was waiting in its inputs, and the assignment is still the current one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Protocol

import aiokafka.errors
from prometheus_client import Counter

from app.clock import Clock
from app.commit.journal import Journal
from app.due.due_loop import DueLoop
from app.due.input_liveness import BLIND_S
from app.errors import PartitionStopped
from app.ingest.ingest import crc_of
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.ownership.catch_up import SILENT_S, CatchUp
from app.partition.partition import Partition, State
from app.settings import Settings
from app.topics import TOMBSTONES_MS
from punctual.contract.request import TOPIC_NAME
from tables import Changes, DelayTable, Inspection, PartitionStore, Position, RecordsGarbled, RecordUnreadable

if TYPE_CHECKING:
    from app.reports.watermark import Watermark

log = logging.getLogger(__name__)

_CUT_SHORT = Counter(
    "delay_catch_up_cut_short", "How often a partition began to fire before all that waited for it was read."
)
_FINISH_S = 3.0
_LOOK_S = 0.02
#: Partitions that hear nothing of their inputs so soon after each other wait for the same.
_TOGETHER_S = 1.0


class Intake(Protocol):
    """What ownership needs of the consumer."""

    async def begin(self, partition: int, offsets: dict[str, int]) -> None:
        """Seek each input topic's partition to its offset and let records come."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records have been fetched and ingested, or None if not known."""


class Ownership:
    """Takes partitions in and gives them away."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        cluster: Cluster,
        table: DelayTable,
        journal: Journal,
        due: DueLoop,
        new_partition: Callable[[int], Partition],
        report: Callable[[], Awaitable[None]],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """Own nothing yet. `report` writes progress records: others may wait for those of a new assignment."""
        self._settings, self._clock, self._cluster = settings, clock, cluster
        self._table, self._journal, self._due = table, journal, due
        self._new, self._report, self._fatal = new_partition, report, fatal
        self.intake: Intake | None = None
        self.watermark: Watermark | None = None
        #: How long the changelog keeps tombstones.
        self.tombstones_ms = TOMBSTONES_MS
        self.generation = -1
        self._tasks: dict[int, asyncio.Task[None]] = {}
        #: Those that may still be waited for, the latest last, which began at this time.
        self._catch_ups: list[CatchUp] = []
        self._catch_up_s = 0.0
        #: Partitions of others that were not waited for since the assignment.
        self._silent = set[int]()
        self._topics = (*settings.inputs, settings.forwards)

    @property
    def topics(self) -> set[str]:
        """The topics that are read."""
        return set(self._topics)

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions that are assigned."""
        return self._due.partitions

    async def revoke(self) -> None:
        """Stop work on all partitions: what is in flight is finished, or abandoned after a while."""
        self.generation = -1
        for catch_up in self._catch_ups:
            catch_up.close()
        self._catch_ups.clear()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(partition.pause(_FINISH_S) for partition in self.partitions.values()))

    async def assign(self, numbers: Collection[int], generation: int) -> None:
        """Own exactly these partitions from now on; they begin to work as each is ready."""
        self.generation = generation
        for number in set(self.partitions) - set(numbers):
            del self.partitions[number]
        for number in set(self._table.stores) - set(numbers):
            self._table.close(number)
        for number in sorted(numbers):
            if number not in self.partitions:
                self.partitions[number] = self._new(number)
        self._silent.clear()
        catch_up = self._new_catch_up()
        for number in sorted(numbers):
            task = asyncio.get_running_loop().create_task(self._acquire(self.partitions[number], generation, catch_up))
            self._tasks[number] = task
            task.add_done_callback(self._ended)

    def look_again(self, partition: Partition) -> None:
        """Fire no more until what waits in the inputs is read: for a while, nobody has heard of it."""
        log.warning("partition %d: its inputs were out of sight; it fires when they are read", partition.number)
        partition.state = State.CATCHING_UP
        task = asyncio.get_running_loop().create_task(self._read_again(partition, self.generation))
        self._tasks[partition.number] = task
        task.add_done_callback(self._ended)

    async def _read_again(self, partition: Partition, generation: int) -> None:
        began, catch_up = asyncio.get_running_loop().time(), self._shared_catch_up()
        await self._catch_up(partition, await self._ends(partition.number), catch_up, began)
        self._go_live(partition, generation)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fatal(error)

    async def close(self) -> None:
        """Give everything away: databases are closed when this returns."""
        await self.revoke()
        await self.assign((), -1)

    async def _acquire(self, partition: Partition, generation: int, catch_up: CatchUp) -> None:
        """Bring a partition from assignment to firing."""
        number = partition.number
        partition.state, partition.reason = State.RESTORING, ""
        try:
            store = await self._restore(number)
            offsets = await self._positions(number, store)
        except (PartitionStopped, RecordsGarbled, RecordUnreadable) as error:
            partition.stop(str(error))
            if not isinstance(error, PartitionStopped):
                self._table.close(number)  # what it holds in memory may be half of something
            return
        began = asyncio.get_running_loop().time()
        ends = await self._ends(number)
        await partition.prepare(store)
        await self._learn_destinations(store)
        if generation != self.generation:
            return
        partition.start(store, self._fatal)
        assert self.intake is not None, "the consumer comes first"
        assert self.watermark is not None, "the watermark comes first"
        await self.watermark.begin(partition)
        await self.intake.begin(number, offsets)
        await self._catch_up(partition, ends, catch_up, began)
        self._go_live(partition, generation)

    def _shared_catch_up(self) -> CatchUp:
        """Return the last one if it has just begun, else a new one."""
        together = asyncio.get_running_loop().time() - self._catch_up_s <= _TOGETHER_S
        return self._catch_ups[-1] if self._catch_ups and together else self._new_catch_up()

    def _new_catch_up(self) -> CatchUp:
        catch_up = CatchUp(
            self._settings, self._cluster, self.partitions, self._caught_up, self._report, frozenset(self._silent)
        )
        self._catch_ups = [*(one for one in self._catch_ups if not one.over), catch_up]
        self._catch_up_s = asyncio.get_running_loop().time()
        return catch_up

    def _go_live(self, partition: Partition, generation: int) -> None:
        if generation == self.generation and partition.working:
            partition.state = State.LIVE
            self._due.notify()

    async def _restore(self, number: int) -> PartitionStore:
        """Restore to the changelog's end and become the only writer.

        Raises RecordUnreadable if a record cannot be read; RecordsGarbled if such ones keep coming meanwhile.
        """
        try:
            return await self._take_over(number)
        except RecordsGarbled as error:
            log.warning("partition %d: %s; each record is looked at", number, error)
            self._table.close(number)
            return await self._take_over(number, looked_at=True)

    async def _take_over(self, number: int, *, looked_at: bool = False) -> PartitionStore:
        name = f"{self._settings.changelog}-{number}"
        skip = self._settings.skipped(name)
        await self._journal.fence(number)
        now = self._clock.wall_ms()
        store = self._table.open(number, now - self.tombstones_ms // 2)
        reader = self._journal.reader(number, store.offset)
        begin, end = await reader.begin(), await reader.end()
        if store.offset > end:
            log.error(
                "partition %d: the local database is at offset %d of a changelog that ends at %d: it was emptied "
                "or recreated. The changelog is the truth: the local database is dropped.",
                number,
                store.offset,
                end,
            )
            store = self._table.renew(number)
        reader = self._journal.reader(number, max(begin, store.offset))
        await self._table.restore(number, reader, skip, Inspection(name, skip) if looked_at else None)
        sent_ms, jumps = self._clock.now_ms(), self._clock.jumps
        # Before anything is fired, the clock is known not to be fast.
        self._clock.confirm(sent_ms, jumps, await self._journal.claim(number, sent_ms))
        if store.foreign.keys:
            log.warning("partition %d: %d keys that a zombie wrote are set right", number, len(store.foreign.keys))
            await self._journal.rewrite(number, self._clock.wall_ms())
        return store

    def _reader(self, topic: str, number: int, offset: int = 0) -> PartitionReader:
        return PartitionReader(self._cluster, topic, number, offset)

    async def _positions(self, number: int, store: PartitionStore) -> dict[str, int]:
        """Return where to read on in each input; sees that they are the same logs as before.

        Raises PartitionStopped if one is not.
        """
        offsets = {}
        for topic in self._topics:
            position = store.positions.get(topic)
            begin = await self._reader(topic, number).begin()
            if position is None:
                offsets[topic] = begin
                continue
            trouble = await self._differs(topic, number, position, begin)
            if trouble and topic in self._settings.accept_recreated:
                base = position.base + position.offset - begin
                log.warning(
                    "%s, accepted by DELAY_ACCEPT_RECREATED: read from offset %d on, which sources and automatic ids "
                    "call %d",
                    trouble,
                    begin,
                    begin + base,
                )
                changes = Changes()
                changes.positions[topic] = Position(begin, -1, 0, base, max(position.stamp_ms, position.timestamp_ms))
                store.apply(changes, store.offset, store.writer, self._clock.wall_ms())
            elif trouble:
                msg = (
                    f"{trouble}: it was deleted and created again, and commands in it may be unread. Nothing is "
                    f"skipped silently: set DELAY_ACCEPT_RECREATED={topic} and restart to read the new one from its "
                    "start, or restore the old one."
                )
                raise PartitionStopped(msg)
            elif begin > position.offset:
                log.error(
                    "%s-%d: records %d to %d were deleted before they were read: the topic's retention is shorter than "
                    "the lag. Raise its retention.ms; what is lost must be sent again.",
                    topic,
                    number,
                    position.offset,
                    begin - 1,
                )
            offsets[topic] = max(begin, store.positions[topic].offset)
        return offsets

    async def _differs(self, topic: str, number: int, position: Position, begin: int) -> str:
        """Say how a topic differs from the one that was read before, or nothing."""
        if position.timestamp_ms < 0:
            return ""
        end = await self._reader(topic, number).end()
        last = position.offset - 1
        if position.offset > end:
            return f"{topic}-{number} ends at offset {end}, it was read up to {position.offset}"
        if begin > last:
            return ""
        reader = self._reader(topic, number, last)
        while await reader.position() <= last:
            for record in await reader.chunk(1):
                same = (record.timestamp_ms, crc_of(record.key, record.value)) == (position.timestamp_ms, position.crc)
                if record.offset == last and not same:
                    return f"{topic}-{number} has another record at offset {last} than when it was read"
                return ""
        return ""

    async def _learn_destinations(self, store: PartitionStore) -> None:
        try:
            await self._cluster.refresh([topic for topic in store.counts.destinations if TOPIC_NAME.fullmatch(topic)])
        except aiokafka.errors.KafkaError as error:
            log.warning("destinations: no metadata yet: %r", error)

    async def _catch_up(self, partition: Partition, ends: dict[str, int], catch_up: CatchUp, began: float) -> None:
        """Wait until what waited at assignment is ingested: commands among it come before firing.

        They may come from other partitions: those are waited for too, and then what they have forwarded. If it is long
        since it was looked what waits, for the `ends` when it `began`, commands that have come meanwhile have waited
        for long too: so it is done again, until it is not.
        """
        partition.state = State.CATCHING_UP
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.catch_up_ms / 1000):
                await self._read_all(partition, ends, catch_up)
                while loop.time() - min(began, catch_up.began_s) > BLIND_S:
                    began, catch_up = loop.time(), self._shared_catch_up()
                    await self._read_all(partition, await self._ends(partition.number), catch_up)
        except TimeoutError:
            _CUT_SHORT.inc()
            log.error(  # noqa: TRY400 - the trace says nothing
                "partition %d: firing begins before all waiting requests are read (DELAY_CATCH_UP): a cancel among "
                "them may come too late",
                partition.number,
            )

    async def _read_all(self, partition: Partition, ends: dict[str, int], catch_up: CatchUp) -> None:
        await self._ingest(partition, ends)
        await catch_up.cleared()
        self._note_silent(catch_up.without)
        forwards = self._settings.forwards
        # Exactly once, what was forwarded may not be readable yet.
        written = await self._reader(forwards, partition.number).written_end()
        await self._ingest(partition, {forwards: written})

    def _note_silent(self, silent: set[int]) -> None:
        """Say and count that some partitions have not been waited for."""
        if silent - self._silent:
            log.error(
                "firing begins before partitions %s have read what waits in their inputs: no worker has told of them "
                "for %g s, or they are stopped. See to them: a cancel among that may come too late",
                sorted(silent),
                SILENT_S,
            )
            _CUT_SHORT.inc()
        self._silent |= silent

    async def _ends(self, number: int) -> dict[str, int]:
        """Return where a partition's inputs end."""
        return {topic: await self._reader(topic, number).end() for topic in self._topics}

    async def _ingest(self, partition: Partition, ends: dict[str, int]) -> None:
        """Wait until a partition has ingested its inputs up to these offsets."""
        while not all(self._caught_up(partition, topic, end) for topic, end in ends.items()):  # noqa: ASYNC110 - numbers
            await asyncio.sleep(_LOOK_S)

    def _caught_up(self, partition: Partition, topic: str, end: int) -> bool:
        position = partition.store.positions.get(topic)
        if end == 0 or (position is not None and position.offset >= end):
            return True
        assert self.intake is not None, "the consumer comes first"
        fetched = self.intake.position(topic, partition.number)  # beyond the last record lie only control records
        return fetched is not None and fetched >= end and partition.idle
