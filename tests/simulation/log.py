"""One partition of a topic as a broker keeps it: real batches, idempotence (KIP-98), transactions."""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tables import native_extension

#: Base offset, length, leader epoch, magic, CRC, attributes, last offset's distance, first and last timestamp, producer
#: id, its epoch, first sequence, count. The CRC is left as it was: this broker does not check it.
_HEAD = struct.Struct(">qiibIhiqqqhii")
_BASE, _ATTRIBUTES, _LAST_TIMESTAMP, _PRODUCER = 0, 21, 35, 43
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20
_SEQUENCES = 1 << 31
#: A broker remembers this many batches of a producer.
_REMEMBERED = 5

NONE, OUT_OF_ORDER, DUPLICATE, OLD_EPOCH = 0, 45, 46, 47


class Sent(NamedTuple):
    """Who sent a batch, how late it may have thought it was, how far its clock was ahead, and when it was."""

    worker: str
    latest_ms: int
    shift_ms: int
    at_s: float


class Record(NamedTuple):
    """A record as consumers get it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Batch:
    """A stored batch."""

    __slots__ = ("_records", "at_ms", "base", "control", "end", "epoch", "producer", "raw", "sent", "transactional")

    def __init__(self, raw: bytearray, at_ms: int, sent: Sent | None) -> None:
        """Read the batch's header."""
        base, _, _, _, _, attributes, last, _, _, self.producer, self.epoch, _, _ = _HEAD.unpack_from(raw)
        self.raw, self.at_ms, self.sent = bytes(raw), at_ms, sent
        self.base, self.end = base, base + last + 1
        self.transactional = bool(attributes & _TRANSACTIONAL)
        self.control = bool(attributes & _CONTROL)
        self._records: list[Record] | None = None

    def records(self, topic: str, partition: int) -> list[Record]:
        """Return its records."""
        if self._records is None:
            self._records = [
                Record(topic, partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                for r in MemoryRecords(self.raw).next_batch()
            ]
        return self._records

    def fetched(self, topic: str, partition: int) -> Sequence[Any]:
        """Return its records as the worker's consumer reads them."""
        if native_extension.module is None:
            return self.records(topic, partition)
        base, _, _, _, _, attributes, _, first_ms, last_ms, _, _, _, count = _HEAD.unpack_from(self.raw)
        append_ms = last_ms if attributes & _APPEND_TIME else -1
        found: Sequence[Any] = native_extension.module.unpack(
            topic, partition, self.raw[_HEAD.size :], count, base, first_ms, append_ms, base
        )
        return found


@dataclass(slots=True)
class _Producer:
    epoch: int
    sequence: int = -1
    last: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def refusal(self, epoch: int, first: int, last: int) -> tuple[int, int, int] | None:
        """Return the answer to a batch that is not appended, or None."""
        if epoch != self.epoch:
            return OLD_EPOCH if epoch < self.epoch else OUT_OF_ORDER, -1, -1
        for from_, to, base, at_ms in self.last:
            if (from_, to) == (first, last):
                return NONE, base, at_ms
        if self.sequence >= 0 and first != (self.sequence + 1) % _SEQUENCES:
            return DUPLICATE if last <= self.sequence else OUT_OF_ORDER, -1, -1
        return None


class Aborted(NamedTuple):
    """An aborted transaction's part of a log."""

    producer: int
    first: int
    last: int


class Log:
    """A partition's log on its leader."""

    def __init__(self, topic: str, partition: int, *, append_time: bool) -> None:
        """Begin empty; with `append_time` the broker stamps records."""
        self.topic, self.partition, self._append_time = topic, partition, append_time
        self.batches: list[Batch] = []
        self._bases: list[int] = []
        self.begin = self.end = 0
        self._producers: dict[int, _Producer] = {}
        #: First offsets of transactions that have not ended, by producer.
        self.ongoing: dict[int, int] = {}
        self.aborted: list[Aborted] = []
        self.watchers: list[Any] = []

    @property
    def stable_end(self) -> int:
        """Where records that may be aborted begin."""
        return min(self.ongoing.values(), default=self.end)

    def append(self, raw: bytes, now_ms: int, sent: Sent | None) -> tuple[int, int, int]:
        """Take a batch; return error code, base offset and append time."""
        head = _HEAD.unpack_from(raw)
        attributes, producer, epoch, first, count = head[5], head[9], head[10], head[11], head[12]
        base, at_ms = self.end, now_ms if self._append_time else -1
        if producer >= 0:
            last = (first + count - 1) % _SEQUENCES
            known = self._producers.get(producer)
            if known is None or (epoch > known.epoch and not first):
                known = self._producers[producer] = _Producer(epoch)
            refusal = known.refusal(epoch, first, last)
            if refusal is not None:
                return refusal
            known.sequence = last
            known.last.append((first, last, base, at_ms))
            if attributes & _TRANSACTIONAL:
                self.ongoing.setdefault(producer, base)
        self._store(bytearray(raw), now_ms, sent)
        return NONE, base, at_ms

    def _store(self, raw: bytearray, now_ms: int, sent: Sent | None) -> None:
        struct.pack_into(">q", raw, _BASE, self.end)
        if self._append_time:
            struct.pack_into(">q", raw, _LAST_TIMESTAMP, now_ms)
            raw[_ATTRIBUTES + 1] |= _APPEND_TIME
        batch = Batch(raw, now_ms, sent)
        self.batches.append(batch)
        self._bases.append(batch.base)
        self.end = batch.end
        self._tell()

    def lose_head(self) -> None:
        """Delete all records that there are."""
        self.begin = self.end
        self.batches.clear()
        self._bases.clear()

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher(self)

    def epochs(self) -> list[tuple[int, int]]:
        """Return the producers that have written, with their last epochs."""
        return sorted((producer, known.epoch) for producer, known in self._producers.items())

    def mark(self, producer: int, epoch: int, now_ms: int, *, committed: bool) -> None:
        """Write the marker that ends a transaction here."""
        first = self.ongoing.pop(producer, None)
        known = self._producers.setdefault(producer, _Producer(epoch))
        if epoch > known.epoch:
            known = self._producers[producer] = _Producer(epoch)
        if first is not None and not committed:
            self.aborted.append(Aborted(producer, first, self.end))
        raw = bytearray(_MARKERS[committed])
        struct.pack_into(">qh", raw, _PRODUCER, producer, epoch)
        self._store(raw, now_ms, None)

    def read(self, offset: int, *, committed: bool) -> tuple[list[Batch], list[Aborted]]:
        """Return the batches from the one with `offset` on, and the aborted ranges in the result."""
        begin = max(0, bisect_right(self._bases, offset) - 1)
        end = self.stable_end if committed else self.end
        found = [batch for batch in self.batches[begin:] if batch.end > offset and batch.base < end]
        aborted = [dead for dead in self.aborted if dead.last >= offset and dead.first < end] if committed else []
        return found, aborted

    def is_aborted(self, batch: Batch) -> bool:
        """Return whether a batch belongs to an aborted transaction."""
        if not batch.transactional:
            return False
        return any(d.producer == batch.producer and d.first <= batch.base <= d.last for d in self.aborted)

    def committed(self) -> list[Batch]:
        """Return the batches that a read-committed reader sees."""
        end = self.stable_end
        return [b for b in self.batches if b.base < end and not b.control and not self.is_aborted(b)]


def is_transactional(raw: bytes) -> bool:
    """Return whether a batch is part of a transaction."""
    return bool(raw[_ATTRIBUTES + 1] & _TRANSACTIONAL)


def producer_of(raw: bytes) -> tuple[int, int]:
    """Return a batch's producer id and epoch."""
    producer, epoch = struct.unpack_from(">qh", raw, _PRODUCER)
    return producer, epoch


def _marker(*, committed: bool) -> bytes:
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=1, producer_id=0, producer_epoch=0, base_sequence=-1, batch_size=1_000
    )
    builder.append(0, 0, struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, 0), [])
    raw = bytearray(builder.build())
    raw[_ATTRIBUTES + 1] |= _CONTROL
    return bytes(raw)


_MARKERS = {True: _marker(committed=True), False: _marker(committed=False)}
