"""The records that aiokafka's consumers unpack from a fetch: light, within bounds, with headers of any name.

Kafka's protocol requires UTF-8 for names of headers, but brokers do not check it, and clients like librdkafka send any
bytes. aiokafka's reader raises UnicodeDecodeError (aiokafka/record/default_records.py, _read_msg), again at each start,
so that one such record would block all later ones. Here the rest of such a batch is read once more, slowly, with
undecodable bytes as surrogates (PEP 383). A batch that is too large unpacked (punctual/batches.py) becomes one record:
`Unread`.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from app.kafka import fast_path
from app.kafka.patches.heavy_batches import AT_ONCE, heavy
from app.kafka.patches.leader_epochs import epochs
from punctual import batches

T = TypeVar("T")

#: The message format of brokers since 0.11; older formats have no header with a number of records.
_MAGIC = 2
#: Maximum records that aiokafka, and the fast path, read at a time, without interruption for about 2 ms.
_RUN, _FAST_RUN = 1_000, 20_000
#: Larger batches are left to aiokafka, because the native extension's records copy their value at each access.
_FAST_BYTES = 8 << 20


class _Buffer(bytearray):
    """Bytes whose parts can all be decoded."""

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        return _Buffer(item) if isinstance(index, slice) else item

    def decode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> str:
        return bytes(self).decode(encoding, errors)


class _Batch(_DefaultRecordBatchPy):
    """An uncompressed batch that is read leniently."""

    _buffer: bytearray

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self._buffer = _Buffer(self._buffer)


def runs(batch: Any, raw: bytes, make: Callable[[Any], T]) -> Iterator[list[T]]:
    """Yield the records of a batch, converted by `make`, in runs that are too short to delay due messages.

    `batch` reads `raw`, which is not compressed, and has not been started.
    """
    left: Iterator[Any] = itertools.chain(batch)  # aiokafka's iterator cannot be started twice, as islice would
    after = -1
    while True:
        run, failed = list[Any](), False
        try:
            run += itertools.islice(left, _RUN)
        except UnicodeDecodeError:  # the records before the error are in the list
            failed = True
        if run:
            after = run[-1].offset
            yield list(map(make, run))
        if failed:
            left = _read_leniently(raw, after)
        elif len(run) < _RUN:  # aiokafka's iterator would start again
            return


def _read_leniently(raw: bytes, after: int) -> Iterator[Any]:
    return (one for one in _Batch(raw) if one.offset > after)


class LeanRecord(msgspec.Struct, gc=False):
    """A record with the fields that are used: aiokafka's own takes almost three times as long to create (0.9 µs)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Unread(LeanRecord):
    """Represents the records of an unreadable batch, from offset `first` on; its own offset is the last one's."""

    first: int
    too_large: bool
    why: str


class Heavy(list[Any]):
    """Records that were taken together and have more bytes than an uncompressed fetch."""


class _Records(MemoryRecords):
    """The records of a fetch, which also keeps the bytes of its batches."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self._batches = batches.batches(bytes(raw))
        #: Their partition, and the offset of the fetch until its first batch is read.
        self.tp = ("", 0)
        self.fetched_from: int | None = None

    def next_batch(self) -> Any:
        """Return the next batch, whose records are read in runs."""
        batch = super().next_batch()
        if batch is None:
            return None
        raw = next(self._batches)
        epochs.note(self.tp, raw, self.fetched_from)
        self.fetched_from = None
        return _Unpacked(batch, raw, *self.tp)


class _RecordRun(NamedTuple):
    """Records that were read together, which aiokafka treats as one record, the last of them; and their bytes."""

    records: list[Any]
    offset: int
    size: int


#: Represents records that are not unpacked yet, after all others.
_LATER = _RecordRun([], 1 << 62, 0)


class _Unpacked:
    """A batch as aiokafka reads it, except for its records."""

    def __init__(self, batch: Any, raw: memoryview, topic: str, partition: int) -> None:
        self._batch, self._raw, self._tp = batch, raw, (topic, partition)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        """Yield runs of records, _LATER while they are being unpacked, and an Unread for an unreadable batch."""
        try:
            try:
                records = self._read(batches.plain(self._raw, AT_ONCE))
            except batches.TooManyRecordsError:
                raise
            except batches.TooLargeError:
                records = self._read_heavy()
            yield from records
        except batches.UnreadableError as error:
            first, last = self._batch.base_offset, self._batch.next_offset - 1
            stamp_ms, too_large = getattr(self._batch, "max_timestamp", -1), isinstance(error, batches.TooLargeError)
            yield Unread(*self._tp, last, stamp_ms, None, None, [], first, too_large, str(error))

    def _read_heavy(self) -> Iterator[_RecordRun]:
        while (begun := heavy.begin(self._raw)) is None:
            yield _LATER
        unpacked, done = begun
        try:
            while not unpacked.done():
                yield _LATER
            yield from self._read(unpacked.result())
        finally:
            unpacked.cancel()
            done()

    def _read(self, raw: bytes) -> Iterator[_RecordRun]:
        """Return the records of an uncompressed batch, from the fast path if possible, otherwise from aiokafka."""
        batch = self._batch
        if batch.magic != _MAGIC or len(raw) > _FAST_BYTES or (count := batches.count_of(self._raw)) > _FAST_RUN:
            return self._read_with_aiokafka(raw)
        append_ms = batch.max_timestamp if batch.timestamp_type else -1
        records = fast_path.chosen.unpack(self._tp, raw, count, batch.base_offset, batch.first_timestamp, append_ms)
        if records is None:
            return self._read_with_aiokafka(raw)
        return iter([_RecordRun(records, records[-1].offset, len(raw) - batches.BODY)] if records else [])

    def _read_with_aiokafka(self, raw: bytes) -> Iterator[_RecordRun]:
        batches.check_headers(raw)
        (topic, partition), batch = self._tp, self._batch

        def fetched(one: Any) -> LeanRecord:
            stamp_ms = -1 if one.timestamp is None else one.timestamp  # before message format 1 there was none
            return LeanRecord(topic, partition, one.offset, stamp_ms, one.key, one.value, one.headers)

        compressed = batches.codec_of(self._raw)
        if batch.magic == _MAGIC and compressed:
            batch = DefaultRecordBatch(raw)
        for records in runs(batch, raw, fetched):
            yield _RecordRun(
                records, records[-1].offset, sum(len(one.value or b"") for one in records) if compressed else 0
            )


class _PartitionRecords(fetcher.PartitionRecords):
    """The records of a partition's fetch."""

    def __init__(self, tp: Any, records: _Records, *rest: Any) -> None:
        """Unpack the records of a topic's partition."""
        records.tp = tp
        super().__init__(tp, records, *rest)
        records.fetched_from = self.next_fetch_offset
        self.next_fetch_offset: int
        #: The rest of the current run, and whether it is the last one.
        self._left: list[Any] = []
        self.over = False

    def __next__(self) -> Any:
        """Return the next record."""
        for one in self.take(1):
            return one
        raise StopIteration

    def take(self, most: int | None) -> list[Any]:
        """Return the next records, at most `most`, in whole runs if possible.

        The Unread of an unreadable batch is returned alone.
        """
        records: list[Any] = []
        size = 0
        while (most is None or len(records) < most) and size < AT_ONCE:
            if not self._left:
                position = self.next_fetch_offset
                part = next(self._records_iterator, None)
                if part is None:
                    self.over = True
                    break
                if part is _LATER:
                    self.next_fetch_offset = position
                    break
                self._left, size = part.records, size + part.size
            if type(self._left[0]) is Unread and records:
                self.next_fetch_offset = records[-1].offset + 1
                break
            some = self._left if most is None else self._left[: most - len(records)]
            self._left = self._left[len(some) :]
            self.next_fetch_offset = some[-1].offset + 1
            records += some
            if type(some[0]) is Unread:
                break
        return records if size < AT_ONCE else Heavy(records)

    def close(self) -> None:
        """Leave the rest unread."""
        self._records_iterator.close()

    def _consumer_record(self, tp: Any, record: Any) -> Any:  # noqa: ARG002 - aiokafka's creates a record from it
        if type(record) is Unread:
            return _RecordRun([record], record.offset, 0)
        if record is _LATER or record.records[0].offset >= self.next_fetch_offset:
            return record
        return record._replace(records=[one for one in record.records if one.offset >= self.next_fetch_offset])


class _FetchResult(fetcher.FetchResult):
    """A partition's fetch whose records are taken many at a time."""

    _partition_records: Any

    def getall(self, max_records: int | None = None) -> list[Any]:
        """Return the next records; aiokafka's method returns them one by one."""
        records = self._partition_records
        if not self.check_assignment(self._topic_partition) or not self.has_more():
            if records is not None:
                records.close()
            return []
        taken: list[Any] = self._partition_records.take(max_records)
        self._update_position()
        if self._partition_records.over:
            self._partition_records = None
        return taken


def install() -> None:
    """Make aiokafka's consumers read leniently."""
    fetcher.MemoryRecords, fetcher.PartitionRecords = _Records, _PartitionRecords
    fetcher.FetchResult = _FetchResult
