"""One record batch: what a broker appends whole or not at all."""

from collections.abc import Iterable
from typing import NamedTuple

from app.kafka import fast_path
from punctual.contract.request import Headers
from tables.changes import PlainRows

#: What a batch may hold before it is sent. Brokers take 1 MiB by default (message.max.bytes).
TARGET_BYTES = 512 * 1024
NO_HEADERS: Headers = []


class Ack(NamedTuple):
    """What the broker says of a stored batch: its first offset, and its append time in ms (-1: the topic has none)."""

    offset: int
    timestamp_ms: int


class Batch:
    """Records for one topic partition, in order; the first is taken whatever its size."""

    __slots__ = ("_builder", "_raw")

    def __init__(self, limit: int = TARGET_BYTES, *, transactional: bool = False) -> None:
        """Begin an empty batch of at most `limit` bytes, a single larger record aside."""
        self._builder = fast_path.chosen.batch_builder(limit, transactional)
        self._raw: bytes | None = None

    @property
    def count(self) -> int:
        """How many records it has."""
        return self._builder.count

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = NO_HEADERS) -> bool:
        """Add a record; False if it doesn't fit any more."""
        return self._builder.append(timestamp_ms, key, value, headers)

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int = 0) -> int:
        """Add records of key and value alone, but for the first `skipped`, as far as they fit; return how many."""
        return self._builder.extend(timestamp_ms, records, skipped)

    def deliver(self, timestamp_ms: int, rows: PlainRows, begin: int) -> tuple[int, int]:
        """Add plain rows, from the one at `begin` on, as their deliveries, as far as they fit.

        Return how many, and how many bytes their ids have.
        """
        return self._builder.deliver(timestamp_ms, rows, begin)

    def build(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        """Return the batch's bytes, numbered for an idempotent producer (KIP-98); the same at each later call."""
        if self._raw is None:
            self._raw = self._builder.build(producer_id, epoch, sequence)
        return self._raw

    def renumber(self) -> None:
        """Forget the numbers: build() may give others."""
        self._raw = None


#: Topic, partition, and what goes there.
PartitionBatch = tuple[str, int, Batch]
