"""Rows in the native extension: keys and counts, deliveries, and the events of deliveries."""

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kafka import Batch, fast_path
from app.kafka.fast_path import in_python
from app.kafka.fast_path.interface import SentBatch
from punctual.contract import native
from punctual.contract.events import Event
from punctual.contract.events import encode as encode_event
from punctual.contract.home import key_partition
from tables import Entry, keys, places
from tables.counts import PendingCounts
from tables.entry import decode, encode
from tests.kernel.batches import NOW, garbled, theirs
from tests.kernel.built import kernel, needed, patient
from tests.kernel.entries import NOT_PLAIN, Rows, entries, is_plain, rows

Entries = list[tuple[bytes, Entry]]
#: Times at which rows are due, and a row for tests of keys alone: random rows take a hundred times as long to make.
_DUES = st.lists(
    st.one_of(st.integers(NOW, NOW + 3), st.integers(NOW, NOW + 10**8), st.integers(0, keys.MAX_DUE_MS)), max_size=8
)
_ROW = encode(Entry("id", "orders", None, None, [], "in-3-0"))
_PARTITIONS = {"orders": 5, "a": 1, "zür": 64, "x" * 249: 3, "none": 0}


def _plain(found: Rows, begin: int) -> Rows:
    """Return the rows from one on as far as they are plain."""
    return list(itertools.takewhile(lambda row: row[1][0] == 4 and is_plain(decode(row[1])), found[begin:]))


def _decoded(found: Rows) -> Entries:
    return [(key, decode(raw)) for key, raw in found]


def _partition(entry: Entry) -> int:
    if entry.partition is not None:
        return entry.partition
    return -1 if entry.key is None else key_partition(entry.key, _PARTITIONS[entry.to])


def _places(found: Entries) -> dict[tuple[str, int], list[int]]:
    """Return the destinations of rows, and the rows of each destination."""
    places: dict[tuple[str, int], list[int]] = {}
    for number, (_, entry) in enumerate(found):
        places.setdefault((entry.to, _partition(entry)), []).append(number)
    return places


def _fit(found: Entries, batch: Any) -> tuple[int, int]:
    """Write deliveries as the native contract has them; return how many fit, and the bytes of their ids."""
    count = id_bytes = 0
    for key, entry in found:
        if batch.append(count, NOW + 1, entry.key, entry.value, native.delivery(entry, keys.due_of(key))) is None:
            break
        count, id_bytes = count + 1, id_bytes + len(entry.id.encode())
    return count, id_bytes


def _gone(plain: Iterable[tuple[bytes, Entry | None]], offset: int, watermark_ms: int) -> list[tuple[Entry, Event]]:
    """Return the rows that a delivery removes, with their events, up to the first row that is not plain (None)."""
    gone: list[tuple[Entry, Event]] = []
    for at, (key, entry) in enumerate(plain, offset):
        if entry is None or entry.stamp_ms >= watermark_ms or any(entry.id == other.id for other, _ in gone):
            break
        if entry.dedupe_ms is not None or entry.asked_by is not None or entry.moved is not None:
            break
        due_ms, late_ms = keys.due_of(key), NOW + 9 - keys.due_of(key)
        told = Event("delivered", entry.id, NOW, entry.source, due_ms, entry.to, late_ms, f'a"-1-{at}')
        gone.append((entry, told))
    return gone


def _counted(found: Entries, near_end: bytes) -> dict[tuple[str, int], int]:
    """Return how `PendingCounts` counts rows."""
    counts = PendingCounts.__new__(PendingCounts)
    counts._added, counts.near = {}, type("Near", (), {"end": near_end})()
    for key, entry in found:
        counts.add(entry.to, key, 1)
    return counts._added


@needed
@patient
@given(rows(), st.integers(0, 2))
def test_rows_are_grouped_by_where_they_go(found: Rows, begin: int) -> None:
    known = list(itertools.takewhile(lambda row: decode(row[1]).to in _PARTITIONS, _plain(found, begin)))
    expected = _places(_decoded(known))

    taken, groups = kernel.route(found, begin, _PARTITIONS)

    assert taken == len(known)
    assert [(to, partition) for to, partition, _ in groups] == list(expected)
    grouped = [row for *_, rows in groups for row in rows]
    chosen = [known[number] for number in itertools.chain(*expected.values())]
    assert all(one is other for one, other in zip(grouped, chosen, strict=True))


@needed
@patient
@given(_DUES)
def test_rows_that_are_due_are_counted_by_their_times(due: list[int]) -> None:
    found = [(keys.row_key(due_ms, offset, 0), _ROW) for offset, due_ms in enumerate(due)]

    assert kernel.dues(found) == [(at, len(list(times))) for at, times in itertools.groupby(due)]


@needed
@pytest.mark.parametrize("key", [b"", b"\0" * 19, b"\xff" * 20, b"\0" * 21])
def test_a_key_that_is_not_a_rows_is_not_counted(key: bytes) -> None:
    with pytest.raises(ValueError, match="row's key"):
        kernel.dues([(key, b"")])


@needed
@pytest.mark.parametrize("size", range(40))
def test_keys_go_where_kafkas_clients_send_them(size: int) -> None:
    key = bytes(range(250, 256)) * 7
    entry = Entry("id", "zür", key[:size], None, [], "in-3-0")

    _, ((_, partition, _),) = kernel.route([(keys.row_key(NOW, 0, 0), encode(entry))], 0, _PARTITIONS)

    assert partition == key_partition(key[:size], 64)


@pytest.mark.parametrize("field", NOT_PLAIN)
@patient
@given(st.data())
def test_a_row_that_is_not_plain_is_left_to_python(field: str, data: st.DataObject) -> None:
    entry = data.draw(entries(**{field: NOT_PLAIN[field]}))
    row = keys.row_key(NOW, 0, 0), encode(entry)

    assert in_python.route([row], 0, {entry.to: 4}) == (0, [])
    if kernel is None:
        return
    assert kernel.route([row], 0, {entry.to: 4}) == (0, [])
    assert kernel.delivered([row[0]], 0, 1, 1, dict([row]), "a-1", NOW, NOW, 2**62)[0] == 0
    with pytest.raises(ValueError, match=r"this is no \w+ row"):
        kernel.places(dict([row]), b"")
    with pytest.raises(ValueError, match=r"this is no \w+ row"):
        kernel.Builder(1000, transactional=False).deliver(NOW, [row], 0)


@needed
@patient
@given(st.one_of(garbled(entries().map(encode)), st.binary(max_size=60), st.binary(max_size=60).map(b"\x04".__add__)))
def test_a_garbled_row_is_what_python_reads_in_it_or_left_to_python(raw: bytes) -> None:
    row = keys.row_key(NOW, 0, 0), raw

    taken, groups = kernel.route([row], 0, _PARTITIONS)

    if taken:
        entry = decode(raw)
        assert is_plain(entry)
        assert groups == [(entry.to, _partition(entry), [row])]
        builder, other = kernel.Builder(0, transactional=False), theirs(0)
        builder.deliver(NOW, [row], 0)
        other.append(0, NOW, entry.key, entry.value, native.delivery(entry, NOW))
        other.set_producer_state(1, 2, 3)
        assert builder.build(1, 2, 3) == bytes(other.build())


@needed
@patient
@given(rows(), st.integers(0, 2), st.sampled_from([0, 300, 1000, 1 << 20]), st.booleans())
def test_deliveries_are_those_of_the_native_contract(found: Rows, begin: int, limit: int, transactional: bool) -> None:  # noqa: FBT001
    plain = found[:begin] + _plain(found, begin)
    builder = kernel.Builder(limit, transactional=transactional)
    other = theirs(limit, transactional=transactional)
    count, id_bytes = _fit(_decoded(plain[begin:]), other)

    assert builder.deliver(NOW + 1, plain, begin) == (count, id_bytes)
    assert builder.count == count
    if count:
        other.set_producer_state(7, 1, 2)
        assert builder.build(7, 1, 2) == bytes(other.build())


@needed
@patient
@given(rows(), st.sampled_from([-1, NOW, 2**63 - 1]), st.data())
def test_a_delivered_row_has_an_event_and_is_removed(found: Rows, watermark_ms: int, data: st.DataObject) -> None:
    claims: dict[bytes, Any] = dict(found)
    for key, raw in found:
        match data.draw(st.integers(0, 29)):
            case 28:
                claims[key] = decode(raw)
            case 29:
                del claims[key]
    begin = data.draw(st.integers(0, len(found)))
    end = data.draw(st.integers(begin, len(found) + 1))
    plain = (
        (key, decode(raw) if isinstance(claims.get(key), bytes) and _plain([(key, raw)], 0) else None)
        for key, raw in found[begin:end]
    )
    gone = _gone(plain, 100 + begin, watermark_ms)

    sent = [key for key, _ in found]
    taken, ids, raws, events = kernel.delivered(sent, begin, end, 100, claims, 'a"-1', NOW, NOW + 9, watermark_ms)

    assert (taken, ids) == (len(gone), [entry.id for entry, _ in gone])
    assert all(raw is claims[key] for raw, key in zip(raws, sent[begin : begin + taken], strict=True))
    assert list(events) == [(entry.id.encode(), encode_event(told)) for entry, told in gone]


@needed
@patient
@given(rows(), st.sampled_from([b"", keys.row_key(NOW + 10**7, 0, 0), keys.due_bound(NOW + 10**7), b"\x01"]))
def test_rows_count_where_counts_counts_them(found: Rows, near_end: bytes) -> None:
    plain = [row for row in found if _plain([row], 0)]

    ids, places = kernel.places(dict(plain), near_end)

    assert ids == [keys.ID + decode(raw).id.encode() for _, raw in plain]
    assert places == [(*place, number) for place, number in _counted(_decoded(plain), near_end).items()]
    assert {to for to, *_ in places} == {decode(raw).to for _, raw in plain}


# the same in Python, of decoded rows --------------------------------------------------------------------------------


@patient
@given(rows(), st.integers(0, 2))
def test_in_python_rows_of_any_version_are_grouped_by_where_they_go(found: Rows, begin: int) -> None:
    decoded = _decoded(found[begin:])
    plain = list(itertools.takewhile(lambda row: is_plain(row[1]) and _PARTITIONS.get(row[1].to), decoded))

    taken, groups = in_python.route(found, begin, _PARTITIONS)

    assert taken == len(plain)
    assert groups == [(*place, [plain[number] for number in numbers]) for place, numbers in _places(plain).items()]


@patient
@given(_DUES)
def test_in_python_rows_that_are_due_are_counted_by_their_times(due: list[int]) -> None:
    found = [(keys.row_key(due_ms, offset, 0), decode(_ROW)) for offset, due_ms in enumerate(due)]

    assert dict(in_python.due_times(found)) == Counter(due)


@patient
@given(rows(), st.integers(0, 2), st.sampled_from([0, 300, 1000, 1 << 20]))
def test_in_python_deliveries_are_those_of_the_native_contract(found: Rows, begin: int, limit: int) -> None:
    other, decoded = theirs(limit), _decoded(found)
    count, id_bytes = _fit(decoded[begin:], other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_path, "chosen", in_python)
        batch = Batch(limit)

    assert batch.deliver(NOW + 1, decoded, begin) == (count, id_bytes)
    assert batch.count == count
    if count:
        other.set_producer_state(7, 1, 2)
        assert batch.build(7, 1, 2) == bytes(other.build())


@patient
@given(rows(), st.sampled_from([-1, NOW, 2**63 - 1]), st.data())
def test_in_python_a_delivered_row_has_an_event_and_is_removed(
    found: Rows, watermark_ms: int, data: st.DataObject
) -> None:
    claims = dict(_decoded(found))
    for key in [key for key in claims if data.draw(st.integers(0, 29)) == 29]:
        del claims[key]
    begin = data.draw(st.integers(0, len(found)))
    end = data.draw(st.integers(begin, len(found) + 1))
    plain = (
        (key, entry if entry is not None and not entry.commands and entry.series is None else None)
        for key, entry in ((key, claims.get(key)) for key, _ in found[begin:end])
    )
    gone = _gone(plain, 100 + begin, watermark_ms)

    sent = [key for key, _ in found]
    taken, ids, ended, events = in_python.delivered(
        sent, begin, end, SentBatch(100, claims, 'a"-1', NOW, NOW + 9, watermark_ms)
    )

    assert (taken, ids, ended) == (len(gone), [entry.id for entry, _ in gone], [entry for entry, _ in gone])
    assert events == [(entry.id.encode(), encode_event(told)) for entry, told in gone]


@patient
@given(rows(), st.sampled_from([b"", keys.row_key(NOW + 10**7, 0, 0), keys.due_bound(NOW + 10**7), b"\x01"]), st.data())
def test_in_python_rows_count_where_counts_counts_them(found: Rows, near_end: bytes, data: st.DataObject) -> None:
    held = {key: decode(raw) if data.draw(st.booleans()) else raw for key, raw in found}
    ids, counted = places.in_python(held, near_end)

    assert ids == [keys.ID + decode(raw).id.encode() for _, raw in found]
    assert {(to, unit): number for to, unit, number in counted} == _counted(_decoded(found), near_end)
