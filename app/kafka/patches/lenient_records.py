"""What aiokafka's consumers unpack from a fetch: light records, whatever the names of their headers.

Kafka's protocol wants UTF-8 there, but no broker looks, and clients like librdkafka send any bytes. aiokafka's reader
raises UnicodeDecodeError (aiokafka/record/default_records.py, _read_msg), at each start again, so that one such record
would stop all that follow. Here the rest of such a fetch is read once more, slowly, with the bytes that cannot be
decoded kept as surrogates (PEP 383).
"""

import itertools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from tables import compiled

#: What a batch begins with: base offset, length after these two, and further on the last record's distance.
_HEAD, _BASE = struct.Struct(">qi11xi"), 8
#: Where its records begin, right behind their count, in the only format that brokers have written since 0.11.
_BODY, _INT, _MAGIC = 61, struct.Struct(">i"), 2
#: So many records are read in one go without the kernel.
_RUN = 1_000


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
        self.raw, self._begin = bytes(raw), 0
        #: Whose they are.
        self.tp = ("", 0)

    def next_batch(self) -> Any:
        """Return the next batch, whose records are read in one go."""
        batch = super().next_batch()
        if batch is None:
            return None
        begin, (length,) = self._begin, _INT.unpack_from(self.raw, self._begin + _BASE)
        self._begin = begin + _BASE + _INT.size + length
        return _Unpacked(batch, memoryview(self.raw)[begin : self._begin], *self.tp)


class _Run(NamedTuple):
    """Records that have been read in one go, which aiokafka takes for one: the last of them."""

    records: list[Any]
    offset: int


class _Unpacked:
    """A batch as aiokafka reads it, but for its records."""

    def __init__(self, batch: Any, raw: memoryview, topic: str, partition: int) -> None:
        self._batch, self._raw, self._tp = batch, raw, (topic, partition)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator of what the kernel reads; aiokafka reads what it does not, or says what is wrong."""
        batch = self._batch
        if batch.magic != _MAGIC:
            return iter(batch)
        if compiled.kernel is None:
            return self._read_in_python()
        count = _INT.unpack_from(self._raw, _BODY - _INT.size)[0]
        append_ms = batch.max_timestamp if batch.timestamp_type else -1
        try:
            records = compiled.kernel.unpack(
                *self._tp, self._body(), count, batch.base_offset, batch.first_timestamp, append_ms, 0
            )
        except ValueError:
            return iter(batch)
        return iter([_Run(records, records[-1].offset)] if records else [])

    def _read_in_python(self) -> Iterator[_Run]:
        """Go through the records a few at a time: what falls due meanwhile waits no longer than that."""
        (topic, partition), left = self._tp, itertools.chain(self._batch)  # theirs cannot be begun twice
        while records := [
            Fetched(topic, partition, one.offset, one.timestamp, one.key, one.value, one.headers)
            for one in itertools.islice(left, _RUN)
        ]:
            yield _Run(records, records[-1].offset)

    def _body(self) -> bytes:
        """Return the bytes of the records, decompressed."""
        if not self._batch.compression_type:
            return bytes(self._raw[_BODY:])
        whole: Any = _DefaultRecordBatchPy(bytes(self._raw))
        whole._maybe_uncompress()  # noqa: SLF001 - theirs
        return bytes(whole._buffer)  # noqa: SLF001 - theirs


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

    def __init__(self, tp: Any, records: _Records, *rest: Any) -> None:
        """Unpack the records of a topic's partition."""
        records.tp = tp
        super().__init__(tp, records, *rest)
        #: Records and runs of them; what is left of the run that is being taken, and whether none follows.
        self._left: list[Any] = []
        self.over = False

    def __next__(self) -> Any:
        """Return the next record."""
        for one in self.take(1):
            return one
        raise StopIteration

    def take(self, most: int | None) -> list[Any]:
        """Return the next records, at most so many, whole runs of them without a look at each."""
        found: list[Any] = []
        while most is None or len(found) < most:
            if not self._left:
                part = next(self._records_iterator, None)
                if part is None:
                    self.over = True
                    break
                if type(part) is not _Run:
                    found.append(part)
                    continue
                self._left = part.records
            some = self._left if most is None else self._left[: most - len(found)]
            self._left = self._left[len(some) :]
            self.next_fetch_offset = some[-1].offset + 1
            found += some
        return found

    def _unpack_records(self) -> Iterator[Any]:
        try:
            yield from super()._unpack_records()
        except UnicodeDecodeError:
            self._records = Batches(self._records.raw, self.next_fetch_offset)
            yield from super()._unpack_records()

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if type(record) is _Run:
            if record.records[0].offset >= self.next_fetch_offset:
                return record
            return record._replace(records=[one for one in record.records if one.offset >= self.next_fetch_offset])
        stamp_ms = -1 if record.timestamp is None else record.timestamp  # before message format 1 there was none
        return Fetched(tp.topic, tp.partition, record.offset, stamp_ms, record.key, record.value, record.headers)


class _FetchResult(fetcher.FetchResult):
    """A partition's fetch, whose records are taken many at a time."""

    _partition_records: Any

    def getall(self, max_records: int | None = None) -> list[Any]:
        """Return its next records, as theirs does one by one."""
        if not self.check_assignment(self._topic_partition) or not self.has_more():
            return []
        found: list[Any] = self._partition_records.take(max_records)
        self._update_position()
        if self._partition_records.over:
            self._partition_records = None
        return found


def install() -> None:
    """Let aiokafka's consumers read leniently."""
    fetcher.MemoryRecords, fetcher.PartitionRecords = _Records, _PartitionRecords
    fetcher.FetchResult = _FetchResult
