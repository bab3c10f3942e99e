"""The new changelog: rows, what is remembered of ids, and positions, each where it belongs now.

What is written is a function of the old changelog, which nobody writes to any more. So it can be cut off anywhere and
written again: the same keys get the same values.
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
#: Rows between two notes of how far it is: so many at most are written again after a cut.
_NOTE_ROWS = 200_000
#: Rows that are moved in one go: about 20 ms, after which brokers are heard.
_CHUNK = 2_000

KeyValue = tuple[bytes, bytes]


class _Writer:
    """Writes to the new changelog, one batch of each partition at a time."""

    def __init__(self, side: Side, epoch: int) -> None:
        """Write as the owner of an `epoch`, which all that come later are above."""
        self._journal, self._stamp = side.journal, keys.long_bytes(epoch)
        self._batches: dict[int, Batch] = {}
        self._sizes: dict[int, int] = {}
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def add(self, partition: int, key: bytes, value: bytes) -> None:
        """Add a record; waits while the partition has a batch on its way and another one is full."""
        size = self._sizes.get(partition, _BATCH_BYTES)
        if size >= _BATCH_BYTES:
            await self._send(partition)
            self._batches[partition] = batch = self._journal.new_batch()
            batch.append(Clock.wall_ms(), keys.WRITER, self._stamp)
            size = 0
        self._batches[partition].append(Clock.wall_ms(), key, value)
        self._sizes[partition] = size + len(key) + len(value) + 32

    async def flush(self) -> None:
        """Wait until all is acknowledged."""
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

    def __init__(self, ground: Ground, moves: Moves, found: Survey) -> None:
        """Write what was `found`, where `moves` says."""
        self._ground, self._moves, self._found = ground, moves, found
        self._stores = ground.before.stores
        self._writer = _Writer(ground.after, epoch_after(self._stores))

    async def fence(self) -> None:
        """Exactly once, see that no earlier run of this command writes any more."""
        for number in self._ground.after.numbers:
            await self._ground.after.journal.fence(number)

    async def rows(self, from_ms: int, note: Callable[[int], Awaitable[None]]) -> None:
        """Write rows that are due from `from_ms` on, in that order; `note` hears before which time all are there."""
        if not from_ms:
            for partition, key in self._found.displaced:
                raw = self._stores[partition].raw(key)
                assert raw is not None, "a row that was looked at is gone"
                await self._move(partition, key, raw)
        displaced, since = frozenset(self._found.displaced), 0
        with Progress("rows written", self._found.rows) as progress:
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
        """Go through the rows of all partitions by due time: what was noted to be there is nowhere looked at again."""

        def of(number: int, store: PartitionStore) -> Iterator[tuple[bytes, int, bytes]]:
            return ((key, number, raw) for key, raw in store.raw_rows(keys.row_key(from_ms, 0, 0)))

        return heapq.merge(*(of(number, store) for number, store in enumerate(self._stores)))

    async def rest(self) -> None:
        """Write what is remembered of ids, and positions."""
        for partition, key, value in marks(self._stores, self._moves):
            await self._writer.add(partition, key, value)
        for partition in self._ground.after.numbers:
            for key, value in positions(self._ground, self._found, partition):
                await self._writer.add(partition, key, value)
        await self._writer.flush()


def epoch_after(stores: list[PartitionStore]) -> int:
    """Return an epoch above all that the old partitions had."""
    return max(store.writer for store in stores) + 1


def marks(stores: list[PartitionStore], moves: Moves) -> Iterator[tuple[int, bytes, bytes]]:
    """Go through what is remembered of ids, with the partition where each id lives now."""
    for store in stores:
        for key, value in store.marks():
            yield moves.home(key[1:]), key, value


def positions(ground: Ground, found: Survey, partition: int) -> Iterator[KeyValue]:
    """Go through the positions of a new partition: old ones read on where they were, their new forwards from the start.

    What was known of forwards that repeat is of no use: before the positions there is none that could.
    """
    settings, stores = ground.before.settings, ground.before.stores
    if partition < len(stores):
        for topic, position in stores[partition].positions.items():
            if topic != settings.topics.forwards:
                yield keys.POSITION + topic.encode(), position_bytes(position)
    forwards = ground.after.settings.topics.forwards
    yield keys.POSITION + forwards.encode(), position_bytes(first_forward(found.highest.get(partition, -1)))
