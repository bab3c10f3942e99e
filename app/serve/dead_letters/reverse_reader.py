"""Reads one partition of the dead letters from its end to its beginning, a block at a time."""

from collections import deque
from typing import Final

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.response_size import size_of

#: Blocks begin small, since a page often needs only the newest few of each partition, and dead letters may be large.
_FIRST, _LARGEST = 16, 1_000
#: A block in memory has at most this many bytes, or a single dead letter.
_HEAVIEST: Final = 1 << 20
#: Fetches are small, because unpacking a large one would delay deliveries.
_FETCH_BYTES, _CHUNK = 128 * 1024, 500


class ReverseReader:
    """Dead letters of one partition, the newest first: offsets from `begin` to `below`, the latter excluded."""

    def __init__(self, cluster: Cluster, topic: str, partition: int, begin: int, below: int) -> None:
        """Start below offset `below`, and stop at offset `begin`."""
        self._cluster, self._topic = cluster, topic
        self.partition, self.below = partition, below
        self._begin, self._unread, self._size = begin, below, _FIRST
        self._block = deque[DeadLetter]()

    @property
    def newest(self) -> DeadLetter | None:
        """The next dead letter, if it has been read."""
        return self._block[-1] if self._block else None

    async def read(self) -> None:
        """Read the next block if none is in memory and there is more; the block may be empty after compaction.

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
        """Remove and return the next dead letter."""
        taken = self._block.pop()
        self.below = taken.offset
        return taken
