"""Whole runs of records are taken from a fetch, and the consumer's position moves as aiokafka's own does."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from app.kafka.patches import lenient_records
from tests.kernel.batches import NOW, plain
from tests.kernel.built import kernel, needed, take_path

pytestmark = needed

_TP = TopicPartition("in", 3)
_FIRST = 100
_PLAIN = fetcher.FetchResult, fetcher.PartitionRecords, MemoryRecords


def _batch(base: int, offsets: list[int], last: int | None = None) -> bytes:
    """Return a batch of records at distances from its base; a compacted one ends further on than with its last."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset in offsets:
        builder.append(offset, NOW + offset, b"%d" % (base + offset), b"v" * 9, [("h", b"1")])
    raw = bytearray(base.to_bytes(8, "big") + bytes(builder.build())[8:])
    if last is not None:
        raw[23:27] = last.to_bytes(4, "big")
    return bytes(raw)


_FETCH = _batch(_FIRST, [0, 1, 2, 3]) + _batch(_FIRST + 4, [0, 2, 3], 5) + _batch(_FIRST + 10, [0])


class _State:
    paused = False

    def __init__(self, position: int) -> None:
        self.position = position

    def consumed_to(self, position: int) -> None:
        self.position = position


def _taken(kinds: Any, start: int, mosts: list[int | None]) -> list[tuple[list[Any], int, bool]]:
    """Return what each call gives, the position then, and whether there is more, until there is not."""
    result, partition_records, memory_records = kinds
    state = _State(start)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    records = partition_records(_TP, memory_records(_FETCH), [], start, None, None, False, 0)  # noqa: FBT003 - theirs
    fetch = result(_TP, assignment=assignment, partition_records=records, backoff=0)
    found = []
    for most in mosts:
        taken = [fetch.getone()] if most == 0 else fetch.getall(most)
        found.append(([_content(one) for one in taken if one is not None], state.position, fetch.has_more()))
        if not fetch.has_more():
            break
    return found


def _content(record: Any) -> Any:
    if isinstance(record, kernel.Record):
        record = plain(record)
    return record.offset, record.timestamp, record.key, record.value, [*map(tuple, record.headers)]


@pytest.mark.parametrize("way", [kernel, None])
@pytest.mark.parametrize("start", [_FIRST, _FIRST + 2, _FIRST + 5, _FIRST + 8, _FIRST + 10])
@pytest.mark.parametrize(
    "mosts", [[None, None], [1] * 12, [2] * 7, [3] * 6, [4, 4, 4, 4], [8, None], [0] * 12, [0, 2, 0, 2, None]]
)
def test_records_are_taken_as_aiokafka_takes_them(
    way: Any, start: int, mosts: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_path(monkeypatch, native=way is not None)
    ours = lenient_records._FetchResult, lenient_records._PartitionRecords, lenient_records._Records

    assert _taken(ours, start, mosts) == _taken(_PLAIN, start, mosts)
