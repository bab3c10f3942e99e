"""One record batch: what a broker appends whole or not at all."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from punctual.contract.dialects.dialects import OF_ROWS
from tables import Entry, compiled
from tables.changes import PlainRows
from tables.keys import due_of

#: What a batch may hold before it is sent. Brokers take 1 MiB by default (message.max.bytes).
TARGET_BYTES = 512 * 1024
_MAGIC, _NO_COMPRESSION = 2, 0
#: The place of the id among the headers of a delivery.
_ID = -3

Headers = list[tuple[str, bytes | None]]
NO_HEADERS: Headers = []


class Ack(NamedTuple):
    """What the broker says of a stored batch: its first offset, and its append time in ms (-1: the topic has none)."""

    offset: int
    timestamp_ms: int


class _PythonBuilder:
    """What the kernel's builder does, with aiokafka's; of rows it wants the entries."""

    __slots__ = ("_builder", "count")

    def __init__(self, limit: int, transactional: bool) -> None:  # noqa: FBT001 - as the kernel's
        self._builder = DefaultRecordBatchBuilder(
            _MAGIC,
            _NO_COMPRESSION,
            is_transactional=int(transactional),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=limit,
        )
        self.count = 0

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        if self._builder.append(self.count, timestamp_ms, key, value, headers) is None:
            return False
        self.count += 1
        return True

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int = 0) -> int:
        append, count = self._builder.append, self.count
        for key, value in itertools.islice(records, skipped, None):
            if append(count, timestamp_ms, key, value, NO_HEADERS) is None:
                break
            count += 1
        first, self.count = self.count, count
        return count - first

    def deliver(self, timestamp_ms: int, rows: Sequence[tuple[bytes, Entry]], begin: int) -> tuple[int, int]:
        append, count, id_bytes = self._builder.append, self.count, 0
        for key, entry in rows[begin:]:
            headers = OF_ROWS.delivery(entry, due_of(key))
            if append(count, timestamp_ms, entry.key, entry.value, headers) is None:
                break
            count += 1
            id_bytes += len(headers[_ID][1] or b"")
        first, self.count = self.count, count
        return count - first, id_bytes

    def build(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        self._builder.set_producer_state(producer_id, epoch, sequence)
        return bytes(self._builder.build())


class Batch:
    """Records for one topic partition, in order; the first is taken whatever its size."""

    __slots__ = ("_builder", "_raw")

    def __init__(self, limit: int = TARGET_BYTES, *, transactional: bool = False) -> None:
        """Begin an empty batch of at most `limit` bytes, a single larger record aside."""
        make: Any = _PythonBuilder if compiled.kernel is None else compiled.kernel.Builder
        self._builder = make(limit, transactional)
        self._raw: bytes | None = None

    @property
    def count(self) -> int:
        """How many records it has."""
        count: int = self._builder.count
        return count

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = NO_HEADERS) -> bool:
        """Add a record; False if it doesn't fit any more."""
        return bool(self._builder.append(timestamp_ms, key, value, headers))

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int = 0) -> int:
        """Add records of key and value alone, but for the first `skipped`, as far as they fit; return how many."""
        added: int = self._builder.extend(timestamp_ms, records, skipped)
        return added

    def deliver(self, timestamp_ms: int, rows: PlainRows, begin: int) -> tuple[int, int]:
        """Add plain rows, from the one at `begin` on, as their deliveries, as far as they fit.

        Return how many, and how many bytes their ids have.
        """
        added: tuple[int, int] = self._builder.deliver(timestamp_ms, rows, begin)
        return added

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
