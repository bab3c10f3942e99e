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

#: Rows a chunk: long enough to make one write worth its while, short enough (about 20 ms) for other tasks to run.
CHUNK = 2_000
_REPORT_EVERY_MS = 2_000
#: Each owner's epoch is one more than the last one's: nobody counts so far.
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
        """Begin at nothing; how long it takes is seen by `monotonic_ms`."""
        self.partition, self.begin, self.position, self.end, self.rows = partition, 0, 0, 0, 0
        self._monotonic_ms = monotonic_ms
        self._started_ms = self._reported_ms = monotonic_ms()

    def start(self, position: int, end: int) -> None:
        """Set out from `position` towards `end`."""
        self.begin = self.position = position
        self.end = end
        self._started_ms = self._reported_ms = self._monotonic_ms()

    @property
    def rows_per_s(self) -> float:
        """Records restored a second so far."""
        return 1_000 * self.rows / max(1, self._monotonic_ms() - self._started_ms)

    @property
    def seconds_left(self) -> float | None:
        """Time left at the present rate, or None while that is not known."""
        done = self.position - self.begin
        if not done:
            return None
        return (self.end - self.position) * (self._monotonic_ms() - self._started_ms) / 1_000 / done

    def advance(self, position: int, rows: int) -> None:
        """Move on to `position` with `rows` more restored; says so in the log now and then."""
        self.position, self.rows = position, self.rows + rows
        now_ms = self._monotonic_ms()
        if now_ms - self._reported_ms >= _REPORT_EVERY_MS:
            self._reported_ms = now_ms
            log.info(str(self))

    def finish(self) -> None:
        """Say in the log that it is done, if it has been heard of there."""
        log.log(logging.INFO if self._reported_ms > self._started_ms else logging.DEBUG, "%s: done", self)

    def __str__(self) -> str:
        """Say it in a sentence."""
        left = "" if self.seconds_left is None else f", {self.seconds_left:.0f} s left"
        return (
            f"restoring partition {self.partition}: {self.rows:,} records, offset {self.position:,} of {self.end:,}, "
            f"{self.rows_per_s:,.0f} a second{left}"
        )


def epoch_of(value: bytes | None) -> int | None:
    """Return the epoch that a writer's stamp says, None if no owner can have written it.

    The same one for everybody, whatever else was read: compaction may have removed what came before.
    """
    if value is None or len(value) != _LONG:
        return None
    epoch = int.from_bytes(value, "big")
    return epoch if epoch < EPOCHS else None


class StaleFilter:
    """Keeps out the batches of a writer that had lost the partition.

    Each batch begins with its writer's epoch. Epochs only grow, so a batch with a smaller one than seen before was
    written by a zombie after its successor had begun; its keys are remembered, for their true values have to be
    written again (compaction would keep the zombie's, being the later ones).
    """

    def __init__(
        self,
        writer: int,
        suspects: set[bytes] | None = None,
        skip: Collection[int] = (),
        inspection: Inspection | None = None,
    ) -> None:
        """Begin with the highest epoch known; the zombie's keys are added to `suspects`.

        Stamps at the offsets `skip` are nobody's. With an `inspection`, records that cannot be read are taken out.
        """
        self.writer = writer
        self.keys: set[bytes] = set() if suspects is None else suspects
        #: Whether the last record was a zombie's: then the next one may belong to the same batch.
        self.inside = False
        self._skip, self._inspection = skip, inspection

    def accept(self, records: Iterable[ChangelogRecord]) -> Iterator[tuple[bytes, bytes | None]]:
        """Return the records of rightful writers; a batch whose stamp no owner can have written is nobody's."""
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
        """Apply the records of rightful writers; the store's offset stays before a zombie's batch that may go on.

        So whoever goes on from there sees whose batch it is. It stays too before what an inspection has taken out.
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

    The reader must stand at `store.offset`. Can be cut off at any point and done again: until the end is reached the
    store counts as old as what it held before, for the tombstones of that may lie among what has not been read yet.
    Stamps at the offsets `skip` are nobody's. Raises RecordsGarbled if records cannot be read or, with an `inspection`,
    RecordUnreadable in the end.
    """
    stale = StaleFilter(store.writer, store.foreign.keys, skip, inspection)
    since = store.seen_ms if store.offset else now_ms()
    if store.shares is not None:
        while store.shares.count(CHUNK):  # noqa: ASYNC110 - it waits for nothing, and lets others work
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
