"""What aiokafka's consumers unpack from a fetch: light records, whatever the names of their headers.

Kafka's protocol wants UTF-8 there, but no broker looks, and clients like librdkafka send any bytes. aiokafka's reader
raises UnicodeDecodeError (aiokafka/record/default_records.py, _read_msg), at each start again, so that one such record
would stop all that follow. Here the rest of such a fetch is read once more, slowly, with the bytes that cannot be
decoded kept as surrogates (PEP 383).
"""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

#: What a batch begins with: base offset, length after these two, and further on the last record's distance.
_HEAD = struct.Struct(">qi11xi")


class _Buffer(bytearray):
    """Bytes whose parts can all be decoded."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Buffer(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> str:
        return bytes(self).decode(encoding, errors)


class _Batch(_DefaultRecordBatchPy):
    """A batch that is read leniently."""

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer = _Buffer(self._buffer)


class Batches:
    """The batches of a fetch from the one that holds an offset on, read leniently."""

    def __init__(self, raw: bytes, offset: int) -> None:
        """Find the batches in the bytes of a fetch."""
        self._left: list[bytes] = []
        begin = 0
        while begin + _HEAD.size <= len(raw):
            base, length, last = _HEAD.unpack_from(raw, begin)
            end = begin + 12 + length
            if end <= len(raw) and base + last >= offset:
                self._left.append(raw[begin:end])
            begin = end
        self._left.reverse()

    def has_next(self) -> bool:
        """Return whether there is another one."""
        return bool(self._left)

    def next_batch(self) -> _Batch:
        """Return the next one."""
        return _Batch(self._left.pop())


class _Records(MemoryRecords):
    """The records of a fetch, which keeps its bytes in case that they must be read again."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.raw = bytes(raw)


class Fetched(msgspec.Struct, gc=False):
    """A record, as far as it is used: aiokafka's own takes almost three times as long to make (0.9 µs to 0.3)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class _PartitionRecords(fetcher.PartitionRecords):
    """The records of a partition's fetch."""

    _records: Any

    def __iter__(self) -> Iterator[Fetched]:
        """Return the iterator itself, which saves a call of __next__() for each record."""
        found: Iterator[Fetched] = self._records_iterator
        return found

    def _unpack_records(self) -> Iterator[Fetched]:
        try:
            yield from super()._unpack_records()
        except UnicodeDecodeError:
            self._records = Batches(self._records.raw, self.next_fetch_offset)
            yield from super()._unpack_records()

    def _consumer_record(self, tp: Any, record: Any) -> Fetched:
        return Fetched(
            tp.topic, tp.partition, record.offset, record.timestamp, record.key, record.value, record.headers
        )


def install() -> None:
    """Let aiokafka's consumers read leniently."""
    fetcher.MemoryRecords, fetcher.PartitionRecords = _Records, _PartitionRecords
