"""Which leaders took the batches that a consumer fetches: a log that was cut and has grown again shows by that.

Each batch has the epoch of the leader that took it (KIP-101), and a leader that is elected later has a later one. A
leader that lacked the last records took others in their place. aiokafka asks no broker for epochs (KIP-320), so a
consumer whose next offset is there again goes on behind records that it has never seen.
"""

import struct

#: Where a batch has its leader's epoch, and its format; formats before this one have no epoch.
_EPOCH, _MAGIC = struct.Struct(">i"), 16
_AT, _NEW_FORMAT = 12, 2

TopicPartition = tuple[str, int]


class LeaderEpochs:
    """Remembers the epoch of the last batch of each partition that was fetched."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._last: dict[TopicPartition, int] = {}
        #: Partitions whose last fetch began with a batch of a later leader than that of the batch before: from which
        #: offset on it was, and the epoch of the batch before. Who reads the records looks whether they follow it.
        self.risen: dict[TopicPartition, tuple[int, int]] = {}

    def note(self, tp: TopicPartition, batch: bytes | memoryview, fetched_from: int | None) -> None:
        """Note a batch, the next one of its partition; the first one of a fetch was `fetched_from` an offset on."""
        epoch, last = epoch_of(batch), self._last.get(tp)
        if epoch == last or epoch is None:
            return
        self._last[tp] = epoch
        if fetched_from is not None and last is not None and epoch > last:
            self.risen[tp] = fetched_from, last

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition whose position is sought: others may have read it meanwhile."""
        self._last.pop(tp, None)
        self.risen.pop(tp, None)


def epoch_of(batch: bytes | memoryview) -> int | None:
    """Return the epoch of the leader that took a batch, None if the batch does not have it."""
    epoch: int = _EPOCH.unpack_from(batch, _AT)[0]
    return epoch if batch[_MAGIC] >= _NEW_FORMAT and epoch >= 0 else None


#: Those of the group's consumer, the only one whose records are read in this process without a look at the log before.
epochs = LeaderEpochs()
