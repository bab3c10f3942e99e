"""The epochs of leaders that stored the batches of a fetch, which reveal a log that was truncated and grew again.

Each batch has the epoch of the leader that stored it (KIP-101), and later leaders have higher epochs. A leader that
lacked the last records stored others in their place. aiokafka does not request epochs from brokers (KIP-320), so a
consumer whose next offset exists again continues after records that it has never read.
"""

import struct

#: Offsets of a batch's leader epoch and format; older formats have no epoch.
_EPOCH, _MAGIC = struct.Struct(">i"), 16
_AT, _NEW_FORMAT = 12, 2

TopicPartition = tuple[str, int]


class LeaderEpochs:
    """Remembers the epoch of the last fetched batch of each partition."""

    def __init__(self) -> None:
        """Start without any epochs."""
        self._last: dict[TopicPartition, int] = {}
        #: Partitions whose last fetch began with a batch of a later leader than the previous batch: its offset, and the
        #: epoch of the previous batch. The reader of the records has to check that they follow the previous ones.
        self.risen: dict[TopicPartition, tuple[int, int]] = {}

    def note(self, tp: TopicPartition, batch: bytes | memoryview, fetched_from: int | None) -> None:
        """Note the next batch of a partition; `fetched_from` is the fetch's offset if the batch is its first one."""
        epoch, last = epoch_of(batch), self._last.get(tp)
        if epoch == last or epoch is None:
            return
        self._last[tp] = epoch
        if fetched_from is not None and last is not None and epoch > last:
            self.risen[tp] = fetched_from, last

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition whose position is sought, because other workers may have read it in the meantime."""
        self._last.pop(tp, None)
        self.risen.pop(tp, None)


def epoch_of(batch: bytes | memoryview) -> int | None:
    """Return the epoch of the leader that stored a batch, None if the batch does not have it."""
    epoch: int = _EPOCH.unpack_from(batch, _AT)[0]
    return epoch if batch[_MAGIC] >= _NEW_FORMAT and epoch >= 0 else None


#: Epochs of the group's consumer, the only one in this process that reads without checking the log first.
epochs = LeaderEpochs()
