"""Reads one partition of the dead letters from its end to its beginning, a block at a time."""

from collections import deque
from typing import Final

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.response_size import size_of

#: Blocks begin small, since a page often needs only the newest few of each partition, and dead letters may be large.
_FIRST, _LARGEST = 16, 1_000
#: Each partition has one at hand, which is no heavier than this, or a single letter.
_HEAVIEST: Final = 1 << 20
#: Fetches are small: unpacking one holds up deliveries.
_FETCH_BYTES, _CHUNK = 128 * 1024, 500


class ReverseReader:
    """Dead letters of one partition, the newest first: those between `begin` and `below`, the latter excluded."""

    def __init__(self, cluster: Cluster, topic: str, partition: int, begin: int, below: int) -> None:
        """Stand at the end."""
        self._cluster, self._topic = cluster, topic
        self.partition, self.below = partition, below
        self._begin, self._unread, self._size = begin, below, _FIRST
        self._block = deque[DeadLetter]()

    @property
    def newest(self) -> DeadLetter | None:
        """The next one, if it has been read."""
        return self._block[-1] if self._block else None

    async def read(self) -> None:
        """Read a block, if nothing is at hand and there is more; a block may hold nothing but what was taken back.

        Raises a KafkaError.
        """
        while not self._block and self._unread > self._begin:
            start, end, weighed = max(self._begin, self._unread - self._size), self._unread, 0
            reader = PartitionReader(self._cluster, self._topic, self.partition, start, fetch_bytes=_FETCH_BYTES)
            async for record in reader.up_to(end, _CHUNK):
                if record.offset < end:
                    self._block.append(DeadLetter.of(self.partition, record))
                    weighed += size_of(self._block[-1])
                while weighed > _HEAVIEST and len(self._block) > 1:  # the oldest are read again with the next block
                    weighed -= size_of(self._block.popleft())
                    start = self._block[0].offset
            self._unread, self._size = start, min(2 * (end - start), _LARGEST)
        if not self._block:
            self.below = self._begin

    def take(self) -> DeadLetter:
        """Return the next one, and go on to the one before."""
        taken = self._block.pop()
        self.below = taken.offset
        return taken
