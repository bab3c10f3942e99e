"""One record batch, which a broker appends as a whole or not at all."""

from collections.abc import Iterable
from typing import NamedTuple

from app.kafka import fast_path
from punctual.contract.request import Headers
from tables.changes import PlainRows

#: Maximum bytes of a batch, unless one record is larger. Brokers accept 1 MiB by default (message.max.bytes).
TARGET_BYTES = 512 * 1024
NO_HEADERS: Headers = []


class Ack(NamedTuple):
    """The broker's answer for a stored batch: its first offset, and its append time in ms (-1: the topic has none)."""

    offset: int
    timestamp_ms: int


class Batch:
    """Records for one topic partition, in order; the first is accepted whatever its size."""

    __slots__ = ("_builder", "_raw")

    def __init__(self, limit: int = TARGET_BYTES, *, transactional: bool = False) -> None:
        """Create an empty batch of at most `limit` bytes, unless a single record is larger."""
        self._builder = fast_path.chosen.batch_builder(limit, transactional)
        self._raw: bytes | None = None

    @property
    def count(self) -> int:
        """The number of records."""
        return self._builder.count

    @property
    def size(self) -> int:
        """How many bytes it has; it must have been built."""
        assert self._raw is not None, "the batch has not been built"
        return len(self._raw)

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = NO_HEADERS) -> bool:
        """Add a record; return False if it does not fit."""
        return self._builder.append(timestamp_ms, key, value, headers)

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int = 0) -> int:
        """Add as many records without headers as fit, after the first `skipped` ones; return their number."""
        return self._builder.extend(timestamp_ms, records, skipped)

    def deliver(self, timestamp_ms: int, rows: PlainRows, begin: int) -> tuple[int, int]:
        """Add the deliveries of plain rows from index `begin` on, as many as fit.

        Return their number, and the bytes of their ids.
        """
        return self._builder.deliver(timestamp_ms, rows, begin)

    def build(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        """Return the batch's bytes, numbered for an idempotent producer (KIP-98); later calls return the same."""
        if self._raw is None:
            self._raw = self._builder.build(producer_id, epoch, sequence)
        return self._raw

    def renumber(self) -> None:
        """Forget the numbers, so that build() can use others."""
        self._raw = None


#: Topic, partition, and the batch for it.
PartitionBatch = tuple[str, int, Batch]
