"""The end of a destination's partition, where the last deliveries of a process that died would be."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

from app.engine.partition.claims import ArrivedRow
from app.kafka import Cluster
from app.kafka.metadata.reader import ForeignReader
from punctual.contract.native import Copy, copy_of

#: So many records are read first, the last ones, then twice as many before them, and so on, so many times.
_LAST, _BLOCKS = 1_000, 6
#: Fetches are small: unpacking one holds up deliveries of other partitions.
_FETCH_BYTES = 512 * 1024
#: Nothing is sent before it is due, by a clock that is a second fast at most; with those of brokers, it is this much.
_CLOCKS_MS = 10_000


class UnconfirmedRow(NamedTuple):
    """A row that may have arrived: its key, the source of its message, and the hash of what is delivered of it."""

    row: bytes
    source: str
    content: int


#: What may have arrived at one destination.
Expected = Mapping[Copy, UnconfirmedRow]


class _Delivery(NamedTuple):
    """A record that is a copy of something: the hash of its content, its offset and timestamp."""

    copy: Copy
    content: int
    offset: int
    at_ms: int


class _Block(NamedTuple):
    """Deliveries in a stretch of records, in their order, and the latest timestamp of all records there, if any are."""

    deliveries: list[_Delivery]
    latest_ms: int | None


def content_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the hash of a delivery, as far as it is its sender's; it is good within this process."""
    return hash((key, value, tuple(map(tuple, headers[: -len(Copy._fields)]))))


class DestinationEnd:
    """Reads a partition backwards from where it ends at first; all who look for something there share what is read."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        """Look at a partition of a cluster's topic."""
        self._cluster, self._topic, self._partition = cluster, topic, partition
        self._blocks, self._reading = list[_Block](), asyncio.Lock()
        #: Where the log begins, and what is read already; not known yet.
        self._begin = self._start = -1

    async def find(self, expected: Expected, ours: Callable[[Copy], bool]) -> AsyncIterator[ArrivedRow]:
        """Go through what there is of what is expected, the last stretch first.

        `ours` tells what the same sender has sent: one after the other, and it has taken note in the same order of what
        had arrived. So before a delivery of its that is not expected, nothing is. What is not committed is not there.
        Raises aiokafka's errors if the topic has gone or may not be read.
        """
        first_ms, number = min(int(copy.due) for copy in expected) - _CLOCKS_MS, 0
        while (block := await self._block(number)) is not None:
            if block.latest_ms is not None and block.latest_ms < first_ms:
                return
            settled: bool | None = None  # as the first delivery of the same sender says
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
        """Return a stretch of the records, the last one first; None if there are no more."""
        async with self._reading:
            if self._start < 0:
                reader = self._reader()
                self._begin, self._start = await reader.begin(), await reader.end()
            if number == len(self._blocks) < _BLOCKS and self._begin < self._start:
                self._blocks.append(await self._read(max(self._begin, self._start - (_LAST << number))))
            return self._blocks[number] if number < len(self._blocks) else None

    async def _read(self, start: int) -> _Block:
        """Read the records from `start` on to what is read already."""
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
