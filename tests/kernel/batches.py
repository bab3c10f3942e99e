"""Record batches as aiokafka makes and reads them, which the kernel is compared with."""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import decode_varint_py
from hypothesis import strategies as st

from app.kafka.patches import lenient_records
from punctual.contract.record import PlainRecord
from tests.kernel.built import kernel

NOW = 1_767_225_600_000
HEADER_SIZE = 61
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LOG_APPEND_TIME = 0x08

Headers = list[tuple[str, bytes | None]]
#: A key or a value.
CONTENT = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 70_000).map(bytes))
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=140))), max_size=4)
TIMES = st.one_of(st.integers(NOW - 10**6, NOW + 10**6), st.integers(0, 2**55))


class Asked(NamedTuple):
    """The fields of a record before it is in a batch."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


RECORDS = st.lists(st.builds(Asked, TIMES, CONTENT, CONTENT, HEADERS), max_size=8)


class _Read(lenient_records._Batch):
    """A batch that is read in Python: aiokafka's own decode_varint() in C reads on behind the end of garbled bytes."""

    def _read_msg(self) -> Any:
        return super()._read_msg(decode_varint_py)


def theirs(limit: int, *, transactional: bool = False) -> Any:
    """Return aiokafka's builder."""
    return DefaultRecordBatchBuilder(2, 0, int(transactional), -1, -1, -1, limit)


def section(records: Iterable[Asked]) -> tuple[bytes, int]:
    """Return the record section of a batch, and its first record's timestamp."""
    builder = theirs(1 << 30)
    for offset, record in enumerate(records):
        assert builder.append(offset, *record) is not None
    raw = bytes(builder.build())
    return raw[HEADER_SIZE:], _HEADER.unpack_from(raw)[7]


def read(raw: bytes, count: int, base: int, first_ms: int, append_ms: int) -> list[PlainRecord]:
    """Return what aiokafka reads in a section. Raises whatever it raises."""
    attributes = 0 if append_ms < 0 else _LOG_APPEND_TIME
    header = _HEADER.pack(base, len(raw) + 49, 0, 2, 0, attributes, 0, first_ms, append_ms, -1, -1, -1, count)
    return [
        PlainRecord("in", 3, one.offset, one.timestamp, one.key, one.value, one.headers) for one in _Read(header + raw)
    ]


def plain(record: Any) -> PlainRecord:
    """Return a record of the kernel as Python has it."""
    return PlainRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )


def unpacked(records: Sequence[Asked], base: int = 0, topic: str = "in", partition: int = 3) -> list[Any]:
    """Return records of the kernel, of consecutive offsets."""
    raw, first_ms = section(records)
    found: list[Any] = kernel.unpack(topic, partition, raw, len(records), base, first_ms, -1, 0)
    return found


def plain_records(asked: Sequence[Asked], base: int = 0, topic: str = "in", partition: int = 3) -> list[PlainRecord]:
    """Return records as Python has them, of consecutive offsets."""
    return [PlainRecord(topic, partition, offset, *one) for offset, one in enumerate(asked, base)]


def moved(record: PlainRecord, by: int) -> PlainRecord:
    """Return a record of another offset."""
    return replace(record, offset=record.offset + by)


def fitting(append: Callable[..., Any], records: Iterable[Asked]) -> int:
    """Return how many records aiokafka's builder takes, one after the other."""
    for number, record in enumerate(records):
        if append(number, *record) is None:
            return number
    return len(list(records))


def garbled(raws: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return the bytes with a few of them changed, left out or repeated."""

    def garble(raw: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
        for place, length, put in changes:
            at = place % (len(raw) + 1)
            raw = raw[:at] + put + raw[at + length :]
        return raw

    change = st.tuples(st.integers(0, 1 << 20), st.integers(0, 3), st.binary(max_size=3))
    return st.builds(garble, raws, st.lists(change, min_size=1, max_size=3))
