"""Recovery: the changelog read back into a partition's store, in chunks, with visible progress."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

from tables import keys
from tables.errors import RecordsGarbled, StoreCorrupt, StoreUnusable
from tables.inspection import GARBLED, ChangelogRecord, Inspection, odd
from tables.store import PartitionStore

log = logging.getLogger(__name__)

#: Rows per chunk: enough to make one write worthwhile, and few enough (about 20 ms) to let other tasks run.
CHUNK = 2_000
_REPORT_EVERY_MS = 2_000
#: The exclusive maximum of an epoch. Each owner's epoch is one more than the last owner's, so it is never reached.
EPOCHS = 1 << 62
_LONG, _ROW = 8, b"\x00"


class ChangelogReader(Protocol):
    """Reads one partition of the changelog from an offset to its end."""

    async def end(self) -> int:
        """Return the offset after the last record."""
        ...

    async def chunk(self, limit: int) -> Sequence[ChangelogRecord]:
        """Return the next records, at most `limit`, in order; an empty list when none has come yet."""
        ...

    async def position(self) -> int:
        """Return the offset that is read next."""
        ...


class RestoreProgress:
    """How far the recovery of one partition is: offsets of the changelog, which compaction thins out."""

    def __init__(self, partition: int, monotonic_ms: Callable[[], int]) -> None:
        """Begin at 0 records; `monotonic_ms` measures the duration."""
        self.partition, self.begin, self.position, self.end, self.rows = partition, 0, 0, 0, 0
        self._monotonic_ms = monotonic_ms
        self._started_ms = self._reported_ms = monotonic_ms()

    def start(self, position: int, end: int) -> None:
        """Begin the recovery at `position`, with `end` as its goal."""
        self.begin = self.position = position
        self.end = end
        self._started_ms = self._reported_ms = self._monotonic_ms()

    @property
    def rows_per_s(self) -> float:
        """Records restored per second so far."""
        return 1_000 * self.rows / max(1, self._monotonic_ms() - self._started_ms)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left at the present rate, or None if there is no rate yet."""
        done = self.position - self.begin
        if not done:
            return None
        return (self.end - self.position) * (self._monotonic_ms() - self._started_ms) / 1_000 / done

    def advance(self, position: int, rows: int) -> None:
        """Move on to `position` with `rows` more records restored; logs the progress every two seconds."""
        self.position, self.rows = position, self.rows + rows
        now_ms = self._monotonic_ms()
        if now_ms - self._reported_ms >= _REPORT_EVERY_MS:
            self._reported_ms = now_ms
            log.info(str(self))

    def finish(self) -> None:
        """Log that the recovery is done, at INFO if its progress was logged."""
        log.log(logging.INFO if self._reported_ms > self._started_ms else logging.DEBUG, "%s: done", self)

    def __str__(self) -> str:
        """Return the progress as a sentence."""
        left = "" if self.seconds_left is None else f", {self.seconds_left:.0f} s left"
        return (
            f"restoring partition {self.partition}: {self.rows:,} records, offset {self.position:,} of {self.end:,}, "
            f"{self.rows_per_s:,.0f} a second{left}"
        )


def epoch_of(value: bytes | None) -> int | None:
    """Return the epoch in a writer's stamp, or None if no owner can have written the stamp.

    The result depends on the stamp alone, because compaction may have removed earlier records.
    """
    if value is None or len(value) != _LONG:
        return None
    epoch = int.from_bytes(value, "big")
    return epoch if epoch < EPOCHS else None


class StaleFilter:
    """Filters out the batches of a writer that had lost the partition.

    Each batch begins with its writer's epoch. Epochs only grow, so a batch with a smaller epoch than an earlier batch
    was written by a zombie after its successor had begun. The keys of such a batch are remembered, because their true
    values have to be written again (compaction would keep the zombie's values, which are later).
    """

    def __init__(
        self,
        writer: int,
        suspects: set[bytes] | None = None,
        skip: Collection[int] = (),
        inspection: Inspection | None = None,
    ) -> None:
        """Begin with the highest known epoch, `writer`; the keys that zombies wrote are added to `suspects`.

        Stamps at the offsets `skip` are ignored. With an `inspection`, unreadable records are filtered out.
        """
        self.writer = writer
        self.keys: set[bytes] = set() if suspects is None else suspects
        #: Whether the last record was a zombie's: the next record may belong to the same batch.
        self.inside = False
        self._skip, self._inspection = skip, inspection

    def accept(self, records: Iterable[ChangelogRecord]) -> Iterator[tuple[bytes, bytes | None]]:
        """Return the records of rightful writers, without batches whose stamp no owner can have written."""
        for record in records:
            key, value = record.key or b"", record.value
            if key == keys.WRITER and value is not None:
                epoch = epoch_of(value) if record.offset not in self._skip else None
                self.inside = epoch is None or epoch < self.writer
                self.writer = max(self.writer, epoch or 0)
            if not self.inside:
                if self._inspection is None or self._inspection.passes(record.offset, key, value):
                    yield key, value
            elif key != keys.WRITER:
                self.keys.add(key)
        if self._inspection is not None:
            self.keys |= self._inspection.skipped

    def replay(self, store: PartitionStore, records: Iterable[ChangelogRecord], position: int, now_ms: int) -> None:
        """Apply the records of rightful writers. The store's offset stays before a zombie's batch that may go on.

        So a restart from that offset reads the batch's writer again. The offset also stays before unreadable records.
        Raises RecordsGarbled if some cannot be read: the store has to be opened again.
        """
        accepted = list(self.accept(records))
        stays = self.inside or not (self._inspection is None or self._inspection.clean)
        try:
            if any(len(key) != keys.ROW_SIZE if key[:1] == _ROW else odd(key, value) for key, value in accepted):
                raise ValueError("some are not records of a table")
            store.replay(accepted, store.offset if stays else position, now_ms)
        except (StoreCorrupt, StoreUnusable):
            raise
        except GARBLED as error:
            partition = store.path.stem.rpartition("-")[2]
            raise RecordsGarbled(partition, position, error) from error


async def restore(
    store: PartitionStore,
    reader: ChangelogReader,
    progress: RestoreProgress,
    now_ms: Callable[[], int],
    skip: Collection[int] = (),
    inspection: Inspection | None = None,
) -> set[bytes]:
    """Bring `store` to the changelog's end; return the keys that a zombie was the last to write.

    The reader must be at `store.offset`. The restore can be interrupted at any point and repeated: until it reaches the
    end, the store keeps the age of its former content, whose tombstones may still be unread. Stamps at the offsets
    `skip` are ignored. Raises RecordsGarbled if records cannot be read or, with an `inspection`, RecordUnreadable at
    the end.
    """
    stale = StaleFilter(store.writer, store.foreign.keys, skip, inspection)
    since = store.seen_ms if store.offset else now_ms()
    if store.shares is not None:
        while store.shares.count(CHUNK):  # noqa: ASYNC110 - it only lets other tasks run
            await asyncio.sleep(0)
    progress.start(store.offset, await reader.end())
    while progress.position < progress.end:
        records = await reader.chunk(CHUNK)
        position = await reader.position()
        if records or position > store.offset:
            stale.replay(store, records, position, now_ms() if position >= progress.end else since)
            progress.advance(position, len(records))
    if inspection is not None:
        inspection.conclude()
    progress.finish()
    return store.foreign.keys
