"""Reads the dead letters of an installation from their topic; every worker can read all."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from app.engine.engine import Engine
from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.kafka.patience import brokers_answer
from app.serve.dead_letters.dead_letter import DeadLetter, DeadLetterFilter
from app.serve.search.filter import FilterError
from app.serve.search.pending import MAX_BYTES
from app.serve.web.problem import Problem

#: The limits of a page: dead letters returned, dead letters scanned, and seconds.
MOST_ROWS, _MOST_LOOKED_AT, _LONGEST_S = 1_000, 50_000, 3.0
#: The maximum wait for brokers, in addition.
_PATIENCE_S: Final = 10.0
_DIGITS: Final = 19
#: Blocks begin small, since a page often needs only the newest few of each partition, and dead letters may be large.
_FIRST, _LARGEST = 16, 1_000
#: A block in memory has at most this many bytes, or a single dead letter.
_HEAVIEST: Final = 1 << 20
#: Fetches are small, because unpacking a large one would delay deliveries.
_FETCH_BYTES, _CHUNK = 128 * 1024, 500


class DeadLetterPage(msgspec.Struct, kw_only=True):
    """Dead letters, the newest first. `next` is the cursor of the next page; null at the end.

    The scan covered dead letters written since `looked_back_to_ms` (epoch ms), or all if it is null.
    """

    rows: list[DeadLetter]
    next: str | None
    looked_at: int
    looked_back_to_ms: int | None


class DeadLetterCount(msgspec.Struct, kw_only=True):
    """The number of matches; a lower bound if it is not `complete` because time ran out."""

    matching: int
    looked_at: int
    complete: bool


class ReverseReader:
    """Dead letters of one partition, the newest first: offsets from `begin` to `below`, the latter excluded."""

    def __init__(self, cluster: Cluster, topic: str, partition: int, begin: int, below: int) -> None:
        self._cluster, self._topic = cluster, topic
        self.partition, self.below = partition, below
        self._begin, self._unread, self._size = begin, below, _FIRST
        self._block = deque[DeadLetter]()

    @property
    def newest(self) -> DeadLetter | None:
        """The next dead letter, if it has been read."""
        return self._block[-1] if self._block else None

    async def read(self) -> None:
        """Read the next block if none is in memory; it may be empty after compaction. Raises a KafkaError."""
        while not self._block and self._unread > self._begin:
            start, end, weighed = max(self._begin, self._unread - self._size), self._unread, 0
            reader = PartitionReader(self._cluster, self._topic, self.partition, start, fetch_bytes=_FETCH_BYTES)
            async for record in reader.up_to(end, _CHUNK):
                if record.offset < end:
                    self._block.append(DeadLetter.of(self.partition, record))
                    weighed += self._block[-1].size
                while weighed > _HEAVIEST and len(self._block) > 1:  # the oldest are read again with the next block
                    weighed -= self._block.popleft().size
                    start = self._block[0].offset
            self._unread, self._size = start, min(2 * (end - start), _LARGEST)
        if not self._block:
            self.below = self._begin

    def take(self) -> DeadLetter:
        """Remove and return the next dead letter."""
        taken = self._block.pop()
        self.below = taken.offset
        return taken


class DeadLetters:
    """Finds dead letters; `marked` returns a dead letter with the time when it was sent again, if it was."""

    def __init__(self, engine: Engine, marked: Callable[[DeadLetter], DeadLetter]) -> None:
        self._engine, self._topic = engine, engine.settings.topics.dead_letters
        self._count, self._marked = engine.settings.topics.partitions, marked
        self.namespaces = engine.settings.topics.namespaces

    async def page(self, wanted: DeadLetterFilter, cursor: str, limit: int) -> DeadLetterPage:
        """Return the newest matches from a cursor on: at most `limit`, and as many as fit into a response.

        Raises FilterError for an invalid cursor, Problem if the brokers do not answer.
        """
        until = asyncio.get_running_loop().time() + _LONGEST_S
        rows, looked_at, weighed, oldest_ms = list[DeadLetter](), 0, 0, self._engine.clock.wall_ms()
        partitions = await self._partitions(wanted, cursor)
        async for one in self._newest_first(partitions, wanted.written_from_ms):
            looked_at, oldest_ms = looked_at + 1, one.at_ms
            if wanted.fits(one):
                rows.append(one)
                weighed += one.size
            late = asyncio.get_running_loop().time() >= until
            if len(rows) == limit or weighed >= MAX_BYTES or looked_at == _MOST_LOOKED_AT or late:
                following = ",".join(str(partition.below) for partition in partitions)
                return DeadLetterPage(rows=rows, next=following, looked_at=looked_at, looked_back_to_ms=oldest_ms)
        return DeadLetterPage(rows=rows, next=None, looked_at=looked_at, looked_back_to_ms=None)

    async def count(self, wanted: DeadLetterFilter, seconds: float) -> DeadLetterCount:
        """Count the matches, for at most `seconds`. Raises Problem if the brokers do not answer."""
        until = asyncio.get_running_loop().time() + seconds
        matching = looked_at = 0
        async for one in self._newest_first(await self._partitions(wanted, ""), wanted.written_from_ms):
            looked_at, matching = looked_at + 1, matching + wanted.fits(one)
            if asyncio.get_running_loop().time() >= until:
                return DeadLetterCount(matching=matching, looked_at=looked_at, complete=False)
        return DeadLetterCount(matching=matching, looked_at=looked_at, complete=True)

    async def one(self, partition: int, offset: int) -> DeadLetter | None:
        """Return the complete dead letter at an offset, or None. Raises Problem."""
        if not 0 <= partition < self._count:
            return None
        reader = self._reader(partition, offset)
        async with brokers_answer(_PATIENCE_S, _unreadable):
            if not await reader.begin() <= offset < (end := await reader.end()):
                return None
            async for record in reader.up_to(min(offset + 1, end), 1):
                letter = DeadLetter.of(partition, record, most=None)
                return self._marked(letter) if record.offset == offset else None
        return None

    async def ends(self) -> list[int]:
        """Return the end offset of each partition. Raises Problem."""
        async with brokers_answer(_PATIENCE_S, _unreadable):
            return list(await asyncio.gather(*(self._reader(number).end() for number in range(self._count))))

    async def _partitions(self, wanted: DeadLetterFilter, cursor: str) -> list[ReverseReader]:
        """Return a reader of each partition that starts at the cursor, else at the filter's end, else at the end."""
        below = _cursor(cursor, self._count) if cursor else None

        async def partition(number: int) -> ReverseReader:
            reader = self._reader(number)
            begin, end = await reader.begin(), await reader.end()
            if below is not None:
                end = min(end, below[number])
            elif wanted.written_to_ms != wanted.latest_ms:
                end = min(end, await reader.after(wanted.written_to_ms))
            return ReverseReader(self._engine.cluster, self._topic, number, min(begin, end), end)

        async with brokers_answer(_PATIENCE_S, _unreadable):
            return list(await asyncio.gather(*map(partition, range(self._count))))

    async def _newest_first(self, partitions: list[ReverseReader], from_ms: int) -> AsyncIterator[DeadLetter]:
        """Yield dead letters of all partitions back to `from_ms`; a partition's `below` is the last offset yielded."""
        async with brokers_answer(_PATIENCE_S, _unreadable):
            await asyncio.gather(*(partition.read() for partition in partitions))
        heap = [(-one.newest.at_ms, number) for number, one in enumerate(partitions) if one.newest is not None]
        heapq.heapify(heap)
        while heap:
            at_ms, number = heap[0]
            if -at_ms < from_ms:
                return
            yield self._marked(partitions[number].take())
            async with brokers_answer(_PATIENCE_S, _unreadable):
                await partitions[number].read()
            following = partitions[number].newest
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (-following.at_ms, number))

    def _reader(self, partition: int, offset: int = 0) -> PartitionReader:
        return PartitionReader(self._engine.cluster, self._topic, partition, offset)


def _cursor(text: str, partitions: int) -> list[int]:
    parts = text.split(",")
    if len(parts) == partitions and all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        return [int(part) for part in parts]
    raise FilterError("cursor must be the `next` of an earlier response")


def _unreadable(error: Exception) -> Problem:
    why = str(error) or "they do not answer in time"
    return Problem("kafka-unavailable", f"the brokers do not return the dead letters: {why}")
