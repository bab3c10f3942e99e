"""A batch that unpacks to too much is one record that says so; those around it are read, in order."""

import asyncio
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiokafka import codec as aiokafkas
from aiokafka.structs import TopicPartition

from app.kafka.metadata.reader import PartitionReader
from app.kafka.patches import heavy_batches
from app.kafka.patches.heavy_batches import HeavyBatches
from app.kafka.patches.lenient_records import Heavy, Unread, _FetchResult, _PartitionRecords, _Records
from punctual import batches, bounded_fetch
from tests.harness.raw import PackedBatch, record_of
from tests.kernel.built import kernel, take_path

if TYPE_CHECKING:
    from app.kafka import Cluster

_ZSTD = 4
_TP = TopicPartition("in", 3)


def stored(base: int, *values: bytes | None, packed: bool = True) -> bytes:
    """Return a batch as a broker has it."""
    body = b"".join(record_of(number, value) for number, value in enumerate(values))
    made = PackedBatch(bytes(aiokafkas.zstd_encode(body)) if packed else body, len(values), _ZSTD if packed else 0)
    return struct.pack(">q", base) + made.build(1, 0, 0)[8:]


_LAST = 3 + batches.MAX_RECORDS + 1


@cache
def fetch() -> bytes:
    """Return four batches: two are as usual, between them one has too many bytes and one too many records."""
    heavy = stored(2, bytes(batches.MAX_BYTES + 1)) + stored(3, *[None] * (batches.MAX_RECORDS + 1))
    return stored(0, b"a", b"b", packed=False) + heavy + stored(_LAST, b"c")


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> HeavyBatches:
    """Heavy batches of this test alone."""
    fresh = HeavyBatches()
    monkeypatch.setattr("app.kafka.patches.lenient_records.heavy", fresh)
    return fresh


def held(room: HeavyBatches) -> threading.Event:
    """Unpack no batch until the returned event is set."""
    event = threading.Event()
    room._pool = ThreadPoolExecutor(1)
    room._pool.submit(event.wait)
    return event


def fetched(raw: bytes) -> tuple[_FetchResult, Any]:
    """Return the result of a fetch from offset 0 on, and the consumer's state of its partition."""
    state = SimpleNamespace(paused=False, position=0)
    state.consumed_to = lambda position: setattr(state, "position", position)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    records = _PartitionRecords(_TP, _Records(raw), [], 0, None, None, True, 1)  # noqa: FBT003 - theirs
    return _FetchResult(_TP, assignment=assignment, partition_records=records, backoff=0), state


def taken(fetch: tuple[_FetchResult, Any]) -> list[tuple[list[Any], int]]:
    """Return what each call gives that gives anything, and the position then."""
    (result, state), found, until = fetch, [], time.monotonic() + 60
    while result.has_more():
        assert time.monotonic() < until
        if some := result.getall(2_000):
            found.append((some, state.position))
        time.sleep(0.001)
    return found


@pytest.mark.parametrize("with_kernel", [True, False])
def test_the_replacement_of_a_batch_comes_alone_and_positions_advance(
    with_kernel: bool,  # noqa: FBT001 - pytest's
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_path(monkeypatch, native=with_kernel and kernel is not None)
    calls = taken(fetched(fetch()))
    before, bomb, empties, after = [records for records, _ in calls]

    assert [one.value for one in before] == [b"a", b"b"]
    assert [one.value for one in after] == [b"c"]
    assert [(type(one), one.first, one.offset, one.too_large) for one in (*bomb, *empties)] == [
        (Unread, 2, 2, True),
        (Unread, 3, _LAST - 1, True),
    ]
    assert "33,554,432 bytes" in bomb[0].why
    assert "100,001 records, more than 100,000" in empties[0].why
    assert [position for _, position in calls] == [2, 3, _LAST, _LAST + 1]


def test_few_heavy_batches_are_unpacked_at_once_and_others_are_read_in_between(room: HeavyBatches) -> None:
    large = stored(0, bytes(3 << 20), b"small")
    fetches = [fetched(large) for _ in range(6)]
    other, _ = fetched(stored(0, b"a"))
    room.send_on(2)  # two are on their way into the table
    unpacked = held(room)

    assert [result.getall(2_000) for result, _ in fetches] == [[]] * 6
    assert [one.value for one in other.getall(2_000)] == [b"a"]
    assert len(room._reading) == 2
    unpacked.set()
    [(records, _)] = taken(fetches[0])
    assert type(records) is Heavy
    assert [len(one.value) for one in records] == [3 << 20, 5]
    assert all(result.has_more() for result, _ in fetches[1:])

    room.send_on(-2)
    for fetch in fetches[1:]:
        assert [len(one.value) for records, _ in taken(fetch) for one in records] == [3 << 20, 5]
    assert not room.waiting


def test_a_partition_that_is_given_up_leaves_its_place(room: HeavyBatches) -> None:
    result, state = fetched(stored(0, bytes(3 << 20)))
    unpacked = held(room)
    assert result.getall(2_000) == []
    assert room.waiting

    state.paused = True
    assert result.getall(2_000) == []
    assert not room.waiting
    unpacked.set()


def test_many_small_batches_are_not_unpacked_for_one_call() -> None:
    raw = b"".join(stored(base, bytes(1 << 20)) for base in range(40))

    assert max(len(records) for records, _ in taken(fetched(raw))) <= heavy_batches.AT_ONCE >> 20


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("with_kernel", [True, False])
@pytest.mark.parametrize(("headers", "is_read"), [(batches.MAX_HEADERS, True), (batches.MAX_HEADERS + 1, False)])
def test_a_batch_with_a_record_of_too_many_headers_is_passed_over(
    headers: int,
    is_read: bool,  # noqa: FBT001 - pytest's
    with_kernel: bool,  # noqa: FBT001 - pytest's
    packed: bool,  # noqa: FBT001 - pytest's
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_path(monkeypatch, native=with_kernel and kernel is not None)
    body = record_of(0, b"a") + record_of(1, b"b", headers)
    made = PackedBatch(bytes(aiokafkas.zstd_encode(body)) if packed else body, 2, _ZSTD if packed else 0)
    raw = stored(0, b"before", packed=False) + struct.pack(">q", 1) + made.build(1, 0, 0)[8:] + stored(3, b"after")

    found = [one for records, _ in taken(fetched(raw)) for one in records]

    assert [type(one) is Unread for one in found] == ([False] * 4 if is_read else [False, True, False])
    assert (found[0].value, found[-1].value, found[-1].offset) == (b"before", b"after", 3)
    if not is_read:
        assert (found[1].why, found[1].too_large) == ("a record has more than 1000 headers", True)


async def test_a_reader_of_one_partition_passes_over_headers_too(caplog: pytest.LogCaptureFixture) -> None:
    body = record_of(0, b"a", 5_000)
    raw = struct.pack(">q", 0) + PackedBatch(body, 1, 0).build(1, 0, 0)[8:] + stored(1, b"after")
    reader = PartitionReader(cast("Cluster", None), "delay-queues", 0, 0)
    reader._batches = reader._readable(raw, [])

    assert [(one.offset, one.value) for one in await reader._drain(1_000)] == [(1, b"after")]
    assert "more than 1000 headers" in caplog.text


async def test_a_reader_of_one_partition_skips_records_that_are_too_large(caplog: pytest.LogCaptureFixture) -> None:
    reader = PartitionReader(cast("Cluster", None), "delay-controls", 0, 0)
    reader._batches = reader._readable(fetch(), [])

    found = await reader._drain(1_000)

    assert [(one.offset, one.value) for one in found] == [(0, b"a"), (1, b"b"), (_LAST, b"c")]
    assert await reader.position() == _LAST + 1
    assert "delay-controls-0-2 was not written by Punctual and is skipped: it has more than" in caplog.text


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("count", [999, 1_000, 1_001, 2_000, 2_500])
async def test_a_batch_may_have_more_records_than_are_read_in_one_go(
    count: int,
    packed: bool,  # noqa: FBT001 - pytest's
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = stored(0, *[b"a"] * count, packed=packed) + stored(count, b"b")
    reader = PartitionReader(cast("Cluster", None), "delay-controls", 0, 0)
    reader._batches = reader._readable(raw, [])
    found: list[int] = []
    while some := await reader._drain(700):
        found += [one.offset for one in some]
        assert await reader.position() == found[-1] + 1
    assert found == [*range(count + 1)]

    take_path(monkeypatch, native=False)
    assert [one.offset for records, _ in taken(fetched(raw)) for one in records] == found


@pytest.mark.parametrize("with_kernel", [True, False])
def test_of_many_small_records_a_thousand_are_read_in_one_go(
    monkeypatch: pytest.MonkeyPatch,
    with_kernel: bool,  # noqa: FBT001 - pytest's
) -> None:
    take_path(monkeypatch, native=with_kernel and kernel is not None)
    records = _Records(stored(0, *[None] * 20_500))
    records.tp = _TP

    assert [len(run.records) for run in records.next_batch()] == [1_000] * 20 + [500]


async def test_a_reader_that_is_cancelled_while_it_unpacks_reads_on() -> None:
    reader = PartitionReader(cast("Cluster", None), "delay-controls", 0, 0)
    reader._batches = reader._readable(stored(0, bytes(3 << 20)) + stored(1, b"a"), [])
    drain = asyncio.create_task(reader._drain(10))
    await asyncio.sleep(0)
    drain.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drain

    found = [*await reader._drain(10), *await reader._drain(10)]
    assert [one.offset for one in found] == [0, 1]
    assert await reader.position() == 2


async def test_a_chunk_of_a_reader_has_no_more_bytes_than_it_may() -> None:
    reader = PartitionReader(cast("Cluster", None), "delay-controls", 0, 0)
    reader._batches = reader._readable(b"".join(stored(base, bytes(1 << 20)) for base in range(20)), [])

    assert [one.offset for one in await reader._drain(1_000)] == [0, 1, 2]
    assert await reader.position() == 3
    assert [one.offset for one in await reader._drain(2)] == [3, 4]
    assert await reader.position() == 5


def test_clients_unpack_heavy_batches_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, sizes = batches.plain, list[int]()

    def counted(raw: memoryview, most: int = batches.MAX_BYTES) -> bytes:
        found = plain(raw, most)
        if threading.current_thread() is threading.main_thread():
            sizes.append(len(found))
        return found

    monkeypatch.setattr(batches, "plain", counted)
    raw = stored(0, b"a") + stored(1, bytes(3 << 20))

    assert asyncio.run(bounded_fetch._within_bounds("orders", 0, raw)) == raw
    assert len(sizes) == 1, "the heavy one was unpacked in a thread"
