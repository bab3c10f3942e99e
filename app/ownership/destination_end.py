"""The end of a destination's partition, where the last deliveries of a process that died would be."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.kafka import Cluster
from app.kafka.metadata.reader import ForeignReader
from app.partition.arrived import Arrived
from punctual.contract.native import Copy, copy_of

#: So many records are read first, the last ones, then twice as many before them, and so on.
_LAST = 1_000
#: Fetches are small: unpacking one holds up deliveries of other partitions.
_FETCH_BYTES = 512 * 1024
#: Nothing is sent before it is due; clocks differ by so much at most.
_CLOCKS_MS = 60_000


class Waiting(NamedTuple):
    """A row that may have arrived: its key, the source of its message, and the hash of what is delivered of it."""

    row: bytes
    source: str
    content: int


#: What may have arrived at one destination.
Expected = dict[Copy, Waiting]


def content_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the hash of a delivery, as far as it is its sender's; it is good within this process."""
    return hash((key, value, tuple(map(tuple, headers[: -len(Copy._fields)]))))


class DestinationEnd:
    """Reads a partition backwards, as far as something that is looked for may be."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        """Look at a partition of a cluster's topic."""
        self._cluster, self._topic, self._partition = cluster, topic, partition

    async def find(self, expected: Expected, ours: Callable[[Copy], bool], found: list[Arrived]) -> None:
        """Add to `found` what there is of what is expected, the last first; `ours` tells what the same sender has sent.

        It has sent one after the other, and taken note in the same order of what had arrived: before a delivery of its
        that is not expected, nothing is. What is not committed is not there. Raises aiokafka's errors if the topic has
        gone or may not be read.
        """
        first_ms = min(int(copy.due) for copy in expected) - _CLOCKS_MS
        reader = self._reader()
        begin, end = await reader.after(max(0, first_ms)), await reader.end()
        size = _LAST
        while begin < end:
            start = max(begin, end - size)
            if await self._block(start, end, expected, ours, found):
                return
            end, size = start, 2 * size

    async def _block(
        self, start: int, end: int, expected: Expected, ours: Callable[[Copy], bool], found: list[Arrived]
    ) -> bool:
        """Read the records from `start` to `end`; return whether nothing that is looked for is before them."""
        settled: bool | None = None  # as the first delivery of the same sender says
        async for record in self._reader(start).up_to(end):
            copy = copy_of(record.headers)
            if copy is None or record.offset >= end:
                continue
            waiting = expected.get(copy)
            if waiting is not None:
                settled = settled or False
                if waiting.content == content_of(record.key, record.value, record.headers):
                    at_ms = max(record.timestamp_ms, int(copy.due))
                    place = self._topic, self._partition, record.offset
                    found.append(Arrived(waiting.row, waiting.source, *place, at_ms))
            elif settled is None and ours(copy):
                settled = True
        return bool(settled)

    def _reader(self, offset: int = 0) -> ForeignReader:
        return ForeignReader(self._cluster, self._topic, self._partition, offset, fetch_bytes=_FETCH_BYTES)
