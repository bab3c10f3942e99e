"""The end of a destination's partition, with the last deliveries of a process that died."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

from app.engine.partition.claims import ArrivedRow
from app.kafka import Cluster
from app.kafka.metadata.reader import ForeignReader
from punctual.contract.native import Copy, copy_of

#: Number of last records that are read first, and number of blocks, each twice as long and before the previous one.
_LAST, _BLOCKS = 1_000, 6
#: Fetches are small, because unpacking one delays deliveries of other partitions.
_FETCH_BYTES = 512 * 1024
#: No record is sent before it is due, by a clock at most a second fast. This tolerance includes brokers' clocks.
_CLOCKS_MS = 10_000


class UnconfirmedRow(NamedTuple):
    """A row that may have arrived: its key, the source of its message, and the hash of its delivery's content."""

    row: bytes
    source: str
    content: int


#: The rows that may have arrived at one destination, by copy.
Expected = Mapping[Copy, UnconfirmedRow]


class _Delivery(NamedTuple):
    """A delivery in the log: its copy, the hash of its content, its offset and timestamp."""

    copy: Copy
    content: int
    offset: int
    at_ms: int


class _Block(NamedTuple):
    """Deliveries in a range of records, in order, and the latest timestamp of all its records, None if it has none."""

    deliveries: list[_Delivery]
    latest_ms: int | None


def content_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the hash of a delivery's content without Punctual's own headers; it is only valid within this process."""
    return hash((key, value, tuple(map(tuple, headers[: -len(Copy._fields)]))))


class DestinationEnd:
    """Reads a partition backwards from its first known end; all searches share the records that were read."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        """Read a partition of a topic in `cluster`."""
        self._cluster, self._topic, self._partition = cluster, topic, partition
        self._blocks, self._reading = list[_Block](), asyncio.Lock()
        #: The log's first offset, and the start of the records that were read; -1 if not known yet.
        self._begin = self._start = -1

    async def find(self, expected: Expected, ours: Callable[[Copy], bool]) -> AsyncIterator[ArrivedRow]:
        """Yield the arrivals among the expected rows, from the last block backwards.

        `ours` tells whether a copy is of the same sender. A sender delivers and confirms in the same order, so the
        search ends at one of its deliveries that is not expected. Uncommitted records are not read. Raises aiokafka's
        errors if the topic does not exist or may not be read.
        """
        first_ms, number = min(int(copy.due) for copy in expected) - _CLOCKS_MS, 0
        while (block := await self._block(number)) is not None:
            if block.latest_ms is not None and block.latest_ms < first_ms:
                return
            settled: bool | None = None  # by the first delivery of the same sender
            for copy, content, offset, at_ms in block.deliveries:
                waiting = expected.get(copy)
                if waiting is not None:
                    settled = settled or False
                    if waiting.content == content:
                        late_ms = max(at_ms, int(copy.due))
                        yield ArrivedRow(waiting.row, waiting.source, self._topic, self._partition, offset, late_ms)
                elif settled is None and ours(copy):
                    settled = True
            if settled:
                return
            number += 1

    async def _block(self, number: int) -> _Block | None:
        """Return a block of records, the last one first; None if there are no more."""
        async with self._reading:
            if self._start < 0:
                reader = self._reader()
                self._begin, self._start = await reader.begin(), await reader.end()
            if number == len(self._blocks) < _BLOCKS and self._begin < self._start:
                self._blocks.append(await self._read(max(self._begin, self._start - (_LAST << number))))
            return self._blocks[number] if number < len(self._blocks) else None

    async def _read(self, start: int) -> _Block:
        """Read the block of records from `start` to the start of the previous block."""
        deliveries, latest_ms = list[_Delivery](), None
        async for record in self._reader(start).up_to(self._start):
            if record.offset >= self._start:
                break
            latest_ms = record.timestamp_ms if latest_ms is None else max(latest_ms, record.timestamp_ms)
            copy = copy_of(record.headers)
            if copy is not None:
                content = content_of(record.key, record.value, record.headers)
                deliveries.append(_Delivery(copy, content, record.offset, record.timestamp_ms))
        self._start = start
        return _Block(deliveries, latest_ms)

    def _reader(self, offset: int = 0) -> ForeignReader:
        return ForeignReader(self._cluster, self._topic, self._partition, offset, fetch_bytes=_FETCH_BYTES)
