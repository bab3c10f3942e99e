"""Unpacks large batches in their own thread, a few at a time.

The worker's consumer reads all partitions in one thread. It unpacks most batches at once; a larger one waits here, and
its partition with it, while others are read.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from punctual import batches

#: Maximum bytes that are unpacked at once (2 ms), and bytes of batches passed on together, not counting the last batch.
AT_ONCE: Final = 2 << 20
#: Maximum number of heavy batches that are being unpacked, read, or added to the table. Each has up to 32 MiB, which
#: are copied once, so together they stay below 300 MB, however many partitions have some.
_MOST: Final = 4


class HeavyBatches:
    """Limits the number of heavy batches, and unpacks them. The consumer's thread calls it, except for `send_on`."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._reading = set[object]()
        #: The number of their chunks that are being added to the table.
        self._sent_on = 0

    @property
    def waiting(self) -> bool:
        """Whether there are any, so that the consumer should check again soon."""
        return bool(self._reading)

    def begin(self, raw: memoryview) -> tuple[Future[bytes], Callable[[], None]] | None:
        """Start to unpack a batch; return its future and a function to call after reading, or None if it must wait."""
        if len(self._reading) + self._sent_on >= _MOST:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "unpacks heavy batches")
        one = object()
        self._reading.add(one)
        return self._pool.submit(batches.plain, raw), lambda: self._reading.discard(one)

    def send_on(self, chunks: int) -> None:
        """Count chunks that are on their way into the table, or, if negative, that have arrived there."""
        self._sent_on += chunks

    def forget(self) -> None:
        """Forget all batches, because a rebalance has dropped them."""
        self._reading, self._sent_on = set(), 0


#: The instance of this process, which has one consumer.
heavy = HeavyBatches()
