"""Batches with much in them are unpacked in a thread of their own, a few at a time.

The worker's consumer reads all partitions in one thread. It unpacks most batches at once; one that has more waits
here, and its partition with it, while others are read.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from punctual import batches

#: What is unpacked at once, in about 2 ms, and how many bytes of batches are handed over in one go, but for the last's.
AT_ONCE: Final = 2 << 20
#: Heavy batches that are unpacked, being read, or on their way into the table: each has up to 32 MiB, which are copied
#: once on the way. Together they stay below 300 MB, however many partitions have some.
_MOST: Final = 4


class HeavyBatches:
    """Says how many heavy batches there may be, and unpacks them. The consumer's thread calls it, but for `sent_on`."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._reading = set[object]()
        #: How many chunks of them are on their way into the table.
        self._sent_on = 0

    @property
    def waiting(self) -> bool:
        """Whether there are any: look again soon."""
        return bool(self._reading)

    def begin(self, raw: memoryview) -> tuple[Future[bytes], Callable[[], None]] | None:
        """Begin to unpack a batch; return what will have it, and what to call when it has been read; None for later."""
        if len(self._reading) + self._sent_on >= _MOST:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "unpacks heavy batches")
        one = object()
        self._reading.add(one)
        return self._pool.submit(batches.plain, raw), lambda: self._reading.discard(one)

    def send_on(self, chunks: int) -> None:
        """Hear that so many chunks are on their way, or, below 0, that they are in the table."""
        self._sent_on += chunks

    def forget(self) -> None:
        """Forget all: a rebalance has dropped them."""
        self._reading, self._sent_on = set(), 0


#: Of this process, which has one consumer.
heavy = HeavyBatches()
