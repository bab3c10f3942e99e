"""The new changelog: rows, marks of remembered ids, and positions, each in its new partition.

The new records are a function of the old changelog, which is sealed. So the copy can be interrupted anywhere and
repeated: the same keys get the same values.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from app.base.clock import Clock
from app.ops.repartition.ground import Ground, Side
from app.ops.repartition.moves import Moves, first_forward
from app.ops.repartition.survey import Survey
from punctual.cli.progress import Progress
from tables import PartitionStore, keys
from tables.changes import position_bytes

if TYPE_CHECKING:
    from app.kafka import Batch

_BATCH_BYTES = 512 * 1024
#: The number of rows between two notes of the progress: the maximum that is written again after an interruption.
_NOTE_ROWS = 200_000
#: Rows that are moved at a time: about 20 ms, before the event loop handles the brokers.
_CHUNK = 2_000

KeyValue = tuple[bytes, bytes]


class _Writer:
    """Writes to the new changelog, one batch per partition at a time."""

    def __init__(self, side: Side, epoch: int) -> None:
        """Write with an `epoch` below those of all later owners."""
        self._journal, self._stamp = side.journal, keys.long_bytes(epoch)
        self._batches: dict[int, Batch] = {}
        self._sizes: dict[int, int] = {}
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def add(self, partition: int, key: bytes, value: bytes) -> None:
        """Add a record; waits if the partition has a full batch and another one in flight."""
        size = self._sizes.get(partition, _BATCH_BYTES)
        if size >= _BATCH_BYTES:
            await self._send(partition)
            self._batches[partition] = batch = self._journal.new_batch()
            batch.append(Clock.wall_ms(), keys.WRITER, self._stamp)
            size = 0
        self._batches[partition].append(Clock.wall_ms(), key, value)
        self._sizes[partition] = size + len(key) + len(value) + 32

    async def flush(self) -> None:
        """Wait until all records are acknowledged."""
        for partition in list(self._batches):
            await self._send(partition)
        for task in self._under_way.values():
            await task

    async def _send(self, partition: int) -> None:
        before, batch = self._under_way.get(partition), self._batches.pop(partition, None)
        self._sizes.pop(partition, None)
        if before is not None:
            await before
        if batch is not None:
            self._under_way[partition] = asyncio.create_task(self._journal.put(partition, batch))


class ChangelogCopy:
    """Writes the new changelog."""

    def __init__(self, ground: Ground, moves: Moves, survey: Survey) -> None:
        """Write the records of a `survey` to the places that `moves` computes."""
        self._ground, self._moves, self._survey = ground, moves, survey
        self._stores = ground.before.stores
        self._writer = _Writer(ground.after, epoch_after(self._stores))

    async def fence(self) -> None:
        """With exactly once, fence the transactions of earlier runs of this command."""
        for number in self._ground.after.numbers:
            await self._ground.after.journal.fence(number)

    async def rows(self, from_ms: int, note: Callable[[int], Awaitable[None]]) -> None:
        """Write the rows due from `from_ms` on, in order of due time.

        `note` is called with the time up to which all rows are written.
        """
        if not from_ms:
            for partition, key in self._survey.displaced:
                raw = self._stores[partition].raw(key)
                assert raw is not None, "a row that the survey has read is gone"
                await self._move(partition, key, raw)
        displaced, since = frozenset(self._survey.displaced), 0
        with Progress("rows written", self._survey.rows) as progress:
            for number, (key, partition, raw) in enumerate(self._merged(from_ms), 1):
                if since >= _NOTE_ROWS:
                    await self._writer.flush()
                    await note(keys.due_of(key))
                    since = 0
                if (partition, key) not in displaced:
                    await self._move(partition, key, raw)
                since += 1
                if not number % _CHUNK:
                    progress.add(_CHUNK)
                    await asyncio.sleep(0)
        await self._writer.flush()

    async def _move(self, partition: int, key: bytes, raw: bytes) -> None:
        await self._writer.add(*self._moves.row(partition, key, raw))

    def _merged(self, from_ms: int) -> Iterator[tuple[bytes, int, bytes]]:
        """Iterate over the rows of all partitions by due time, from the last noted time on."""

        def of(number: int, store: PartitionStore) -> Iterator[tuple[bytes, int, bytes]]:
            return ((key, number, raw) for key, raw in store.raw_rows(keys.row_key(from_ms, 0, 0)))

        return heapq.merge(*(of(number, store) for number, store in enumerate(self._stores)))

    async def rest(self) -> None:
        """Write the marks of remembered ids, and the positions."""
        for partition, key, value in marks(self._stores, self._moves):
            await self._writer.add(partition, key, value)
        for partition in self._ground.after.numbers:
            for key, value in positions(self._ground, self._survey, partition):
                await self._writer.add(partition, key, value)
        await self._writer.flush()


def epoch_after(stores: list[PartitionStore]) -> int:
    """Return an epoch above those of all old partitions."""
    return max(store.writer for store in stores) + 1


def marks(stores: list[PartitionStore], moves: Moves) -> Iterator[tuple[int, bytes, bytes]]:
    """Iterate over the marks of remembered ids, with the new home partition of each id."""
    for store in stores:
        for key, value in store.marks():
            yield moves.home(key[1:]), key, value


def positions(ground: Ground, survey: Survey, partition: int) -> Iterator[KeyValue]:
    """Iterate over the positions of a new partition: old inputs go on, the new forwards begin at the start.

    The offsets of applied forwards are left out: a repeated forward can only come before the positions.
    """
    settings, stores = ground.before.settings, ground.before.stores
    if partition < len(stores):
        for topic, position in stores[partition].positions.items():
            if topic != settings.topics.forwards:
                yield keys.POSITION + topic.encode(), position_bytes(position)
    forwards = ground.after.settings.topics.forwards
    yield keys.POSITION + forwards.encode(), position_bytes(first_forward(survey.highest.get(partition, -1)))
