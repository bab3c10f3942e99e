"""At-least-once commits of steps: the order of writes on which the delivery guarantee rests.

First records and events are sent and acknowledged, then the changelog batch; then there is one local write. A crash at
any point leaves the whole step or no part of the step in the changelog. Records of a step that is missing there are
sent again: duplicates, never losses.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final, get_args

from app.base.errors import NotOwner, PartitionStopped
from app.base.histogram import Histogram
from app.base.process.skipped_records import passed_over
from app.engine.steps.outcomes import Delivered
from app.engine.steps.step import Step
from app.kafka import Ack, Batch, Cluster, Sender
from app.kafka.metadata.reader import PartitionReader
from app.kafka.produce.batch import TARGET_BYTES, PartitionBatch
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from punctual.contract.events import Kind
from punctual.contract.request import Reason
from tables import Changes, PartitionStore, Stores, keys
from tables.restore import EPOCHS, StaleFilter, epoch_of

log = logging.getLogger(__name__)

#: Larger than any step: a step's changelog records are exactly one batch, which a broker appends whole or not at all.
WHOLE = 1 << 28
#: Records that are read at a time (about 20 ms) when a database is written to its changelog.
_IMAGE = 2_000


#: Bucket bounds of commit times in seconds, from a local broker to a broker that is almost given up.
COMMIT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class CommittedSteps:
    """Totals over a worker's committed steps: events by kind, dead letters by reason, commits by duration.

    Each step counts once, when it is committed, even if earlier attempts have failed.
    """

    def __init__(self) -> None:
        """Begin with 0 for every kind and reason, so that monitoring sees the first increase."""
        self.events = dict.fromkeys(get_args(Kind), 0)
        self.dead_letters = dict.fromkeys((reason.value for reason in Reason), 0)
        self.commits = Histogram(COMMIT_S)

    def add(self, step: Step, seconds: float) -> None:
        """Count a committed step, whose commit took `seconds`."""
        for kind, number in step.kinds.items():
            self.events[kind] += number
        for reason, number in step.rejects.items():
            self.dead_letters[reason.value] += number
        self.commits.add(seconds)


class Journal:
    """Commits the steps of the partitions of one worker."""

    def __init__(
        self, topics: TopicSettings, engine: EngineSettings, cluster: Cluster, sender: Sender, table: Stores
    ) -> None:
        """Write to the changelog of `table` through `sender`."""
        self._topics, self._engine = topics, engine
        self._cluster, self._sender, self._table = cluster, sender, table
        self._changelog, self._events_topic = topics.changelog, topics.events_topic
        #: Totals over the committed steps.
        self.tally = CommittedSteps()

    def reached(self, point: str, step: Step | None) -> None:
        """Mark a named point of the sequence; fault tests end the process here."""

    def reader(self, partition: int, offset: int) -> PartitionReader:
        """Return a reader of a partition's changelog from `offset` on."""
        return PartitionReader(self._cluster, self._changelog, partition, offset)

    async def deliver(self, partition: int, step: Step) -> Sequence[Delivered]:  # noqa: ARG002 - see TransactionalJournal
        """Return no deliveries: at least once, a step has none."""
        return ()

    async def commit(self, partition: int, step: Step) -> None:
        """Commit a whole step.

        Raises NotOwner if another worker has taken the partition. A SendError from its topics is final too.
        """
        time = asyncio.get_running_loop().time
        began = time()
        await self._append_step(partition, step)
        self.tally.add(step, time() - began)

    async def _append_step(self, partition: int, step: Step) -> None:
        """Send a step's records and events, append its changelog batch, and apply it to the store."""
        store = self._table.stores[partition]
        self.reached("before-events", step)
        sent = [self._sender.submit(*outgoing) for outgoing in self._outgoing(partition, step)]
        if sent:
            self.reached("events-sent", step)
            await (sent[0] if len(sent) == 1 else asyncio.gather(*sent))
        self.reached("events-acked", step)
        if not step.changes:
            return
        batch = self._batch(step.changes, store.writer, step.now_ms)
        acked = self._sender.submit(self._changelog, partition, batch)
        self.reached("changelog-sent", step)
        ack = await acked
        self.reached("changelog-acked", step)
        await self._apply(partition, store, step.changes, ack, batch.count, step.now_ms)
        self.reached("applied", step)

    async def fence(self, partition: int) -> None:
        """Return at once: at least once, records of the last owner are recognised by their epoch."""

    async def claim(self, partition: int, now_ms: int) -> int:
        """Become the partition's only writer, by a stamp in the changelog with a higher epoch than any before.

        Records of other writers count before the stamp, and do not count after it. Returns the broker's time of the
        stamp (epoch ms), -1 if the broker does not return it.
        """
        store = self._table.stores[partition]
        while True:
            epoch = self._next_epoch(partition)
            batch = self._batch(Changes(), epoch, now_ms)
            ack = await self._sender.submit(self._changelog, partition, batch)
            end = await self._end(partition, ack, batch.count)
            await self._read_up_to(partition, store, end - batch.count, now_ms)
            if store.writer < epoch:
                store.apply(Changes(), end, epoch, now_ms)
                return ack.timestamp_ms

    def _next_epoch(self, partition: int) -> int:
        """Return the epoch after the last one.

        Raises PartitionStopped if the last one is the maximum.
        """
        epoch = self._table.stores[partition].writer + 1
        if epoch >= EPOCHS:
            name = f"{self._changelog}-{partition}"
            msg = (
                f"{name} has a record with epoch {epoch - 1}, the last possible one. Workers never reach it, so the "
                "record is forged. Check who may write to this topic, find this record (its key is 'w'), set "
                f"DELAY_ACCEPT_LOSS={name}-<its offset>, move the partition's database out of DATADIR and restart."
            )
            raise PartitionStopped(msg)
        return epoch

    async def check_alone(self, partition: int, now_ms: int) -> None:
        """Check that no other worker has written to the changelog; correct the records of a former owner.

        Raises NotOwner if another worker has taken the partition.
        """
        store = self._table.stores[partition]
        end = await self.reader(partition, store.offset).end()
        if end > store.offset:
            await self._correct(partition, store, await self._foreign(partition, store, end), end, now_ms)

    async def rewrite(self, partition: int, now_ms: int) -> None:
        """Repeat our rows of all keys that others wrote to the changelog, because compaction keeps the last record."""
        store = self._table.stores[partition]
        waiting = sorted(store.foreign.keys)
        while waiting:
            batch = self.new_batch(WHOLE)
            batch.append(now_ms, keys.WRITER, keys.long_bytes(store.writer))
            size = 0
            while waiting and size < TARGET_BYTES:
                key = waiting.pop()
                value = None if keys.is_local(key) else store.raw(key)  # local keys do not belong there
                size += len(value or b"") + 32
                batch.append(now_ms, key, value)
            await self._append(partition, batch, now_ms, last=not waiting)

    async def write_image(self, partition: int, now_ms: int) -> int:
        """Write all records of a partition's database to the changelog again; return how many.

        Each record has its value at the time of writing, so the changelog is right wherever this is interrupted.
        """
        store, start, written = self._table.stores[partition], b"", 0
        while chunk := store.image(start, _IMAGE):
            start, written = chunk[-1][0] + b"\x00", written + len(chunk)
            for batch in self._batches_of(chunk, store.writer, now_ms):
                await self._append(partition, batch, now_ms, last=False)
        return written

    def _batches_of(self, records: Sequence[tuple[bytes, bytes]], writer: int, now_ms: int) -> Iterator[Batch]:
        """Yield batches of `records` with the epoch of `writer`, as large as those of steps."""
        batch, size = self.new_batch(WHOLE), 0
        for number, (key, value) in enumerate(records):
            if not size:
                batch.append(now_ms, keys.WRITER, keys.long_bytes(writer))
            batch.append(now_ms, key, value)
            size += len(key) + len(value) + 32
            if size >= TARGET_BYTES or number == len(records) - 1:
                yield batch
                batch, size = self.new_batch(WHOLE), 0

    async def put(self, partition: int, batch: Batch) -> None:
        """Append a batch of this partition's writer to its changelog without applying it to the store."""
        await self._sender.submit(self._changelog, partition, batch)

    async def _append(self, partition: int, batch: Batch, now_ms: int, *, last: bool) -> None:
        """Append a batch that repeats rows of the store; after the `last`, no foreign keys are left."""
        ack = await self._sender.submit(self._changelog, partition, batch)
        store = self._table.stores[partition]
        if last:
            store.foreign.keys.clear()
        await self._apply(partition, store, Changes(), ack, batch.count, now_ms)

    def _outgoing(self, partition: int, step: Step) -> list[PartitionBatch]:
        """Return a step's events and other records in batches per topic partition."""
        batches: dict[tuple[str, int], list[Batch]] = {}
        for out in step.sends:
            there = batches.setdefault((out.topic, out.partition), [])
            if not there or not there[-1].append(step.now_ms, out.key, out.value, out.headers):
                there.append(self.new_batch(TARGET_BYTES))
                there[-1].append(step.now_ms, out.key, out.value, out.headers)
        if step.events:
            batches.setdefault((self._events_topic, partition), []).extend(self._event_batches(step))
        return [(topic, number, batch) for (topic, number), there in batches.items() for batch in there]

    def _event_batches(self, step: Step) -> list[Batch]:
        batches = [self.new_batch(TARGET_BYTES)]
        for events in step.events:
            done = batches[-1].extend(step.now_ms, events)
            while done < len(events):
                batches.append(self.new_batch(TARGET_BYTES))
                done += batches[-1].extend(step.now_ms, events, done)
        return batches

    def new_batch(self, limit: int = WHOLE) -> Batch:
        """Return an empty batch of the kind that this journal sends, with at most `limit` bytes."""
        return Batch(limit)

    def _batch(self, changes: Changes, writer: int, now_ms: int) -> Batch:
        batch = self.new_batch(WHOLE)
        batch.extend(now_ms, changes.records(writer))
        return batch

    async def _end(self, partition: int, ack: Ack, count: int) -> int:
        """Return the offset after an acknowledged batch; for a repeated batch, the broker may return no offset."""
        if ack.offset >= 0:
            return ack.offset + count
        return await self.reader(partition, 0).end()

    async def _apply(
        self, partition: int, store: PartitionStore, changes: Changes, ack: Ack, count: int, now_ms: int
    ) -> None:
        """Apply changes that the changelog has; correct keys that another worker has written in between."""
        end = await self._end(partition, ack, count)
        if end == store.offset + count:
            store.apply(changes, end, store.writer, now_ms)
            return
        touched = await self._foreign(partition, store, end - count)
        store.apply(changes, store.offset, store.writer, now_ms)
        await self._correct(partition, store, touched, end, now_ms)

    async def _correct(self, partition: int, store: PartitionStore, touched: set[bytes], end: int, now_ms: int) -> None:
        log.warning(
            "partition %d: a worker that no longer owns it wrote %d keys to the changelog. They are corrected",
            partition,
            len(touched),
            extra={"topic": self._changelog, "partition": partition},
        )
        store.foreign.keys |= touched
        store.apply(Changes(), end, store.writer, now_ms)
        await self.rewrite(partition, now_ms)

    async def _foreign(self, partition: int, store: PartitionStore, end: int) -> set[bytes]:
        """Return the keys that others wrote from the store's offset to `end`. Raises NotOwner for a higher epoch."""
        reader = self.reader(partition, store.offset)
        touched: set[bytes] = set()
        while await reader.position() < end:
            for record in await reader.chunk(2_000):
                if record.offset >= end or record.key is None:
                    continue
                if record.key == keys.WRITER:
                    epoch = epoch_of(record.value)
                    if epoch is None:
                        passed_over(self._changelog, partition, record.offset, "its epoch is not valid")
                    elif epoch > store.writer:
                        msg = (
                            f"partition {partition}: another worker has taken it over (epoch {epoch} after "
                            f"{store.writer}). This process ends, so that no message is delivered twice. Its "
                            "supervisor restarts it."
                        )
                        raise NotOwner(msg)
                else:
                    touched.add(record.key)
        return touched

    async def _read_up_to(self, partition: int, store: PartitionStore, end: int, now_ms: int) -> None:
        """Apply the records that earlier owners have written up to `end`, where our stamp is."""
        reader = self.reader(partition, store.offset)
        skip = self._engine.skipped(f"{self._changelog}-{partition}")
        stale = StaleFilter(store.writer, store.foreign.keys, skip)
        while await reader.position() < end:
            records = [record for record in await reader.chunk(2_000) if record.offset < end]
            stale.replay(store, records, min(end, await reader.position()), now_ms)
