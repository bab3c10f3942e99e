"""Plain requests become the same rows, keys and events as if they were read and applied one by one."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.ingest.pending_rows import row_of
from app.kafka.fast_path import in_python, in_rust
from app.kafka.fast_path.interface import FastPath, InputRules, RequestBounds
from punctual.contract.events import Event
from punctual.contract.events import encode as encode_event
from punctual.contract.home import home_partition
from punctual.contract.native import decode
from punctual.contract.plain_requests import decode_plain
from punctual.contract.record import PlainRecord
from punctual.contract.request import Request
from tables import keys
from tables.entry import encode
from tests.kernel.batches import CONTENT, NOW, Asked, Headers, moved, plain, plain_records, unpacked
from tests.kernel.built import WAYS, kernel, needed, patient

_INPUTS = ["in", "delay-requests"]
_ALLOWED = {"orders", "a", "zür", "x" * 249, "http://host/path"}
_LATEST, _FURTHEST = NOW + 5_000, NOW + 10**10
_CRC = keys.topic_crc("in")

_TO = st.sampled_from([b"orders"] * 8 + [b"a", "zür".encode(), b"x" * 249, b"http://host/path", b"other", b"", b"\xff"])
_AT = st.one_of(
    st.integers(0, 10**9).map(lambda after: b"%d" % (NOW + after)),
    st.sampled_from(
        [b"000000000001", b"9" * 15, b"9" * 16, b"12345678901", b"+12345678901", b"", b"2030-01-01T00:00:00Z"]
    ),
)
_ID = st.one_of(
    st.integers(0, 30).map(lambda number: b"id-%d" % number),
    st.tuples(st.sampled_from(["in", "in-x", "delay-requests", "zür"]), st.integers(0, 5), st.integers(0, 9)).map(
        lambda parts: "{}-{}-{}".format(*parts).encode()
    ),
    st.sampled_from(
        [b"in-03-7", b"in--3", b"in-3-", b"in-99999999999999999999-1", b"y" * 256, b"y" * 257, b"", b"\xff"]
    ),
    st.text(max_size=12).map(str.encode),
)
_USERS = st.sampled_from(
    [("trace", b"1"), ("trace", None), ("", b""), ("zür", b"1"), ("delay-", b""), ("delay-due", b"1")]
)


@st.composite
def _asked(draw: st.DrawFn) -> Asked:
    headers: Headers = [("delay-to", draw(_TO)), ("delay-at", draw(_AT))]
    if draw(st.booleans()):
        headers.append(("delay-id", draw(_ID)))
    if draw(st.integers(0, 3)) == 0:
        headers.extend(draw(st.lists(_USERS, max_size=20)))
    if draw(st.integers(0, 20)) == 0:
        headers.append(draw(st.sampled_from([("delay-to", None), ("delay-id", b"twice"), ("delay-at", None)])))
    time = draw(st.sampled_from([NOW, NOW + 1, NOW - 1, NOW + 5_000] * 4 + [-1, NOW + 5_001]))
    return Asked(time, draw(CONTENT), draw(CONTENT), draw(st.permutations(headers)))


def _wanted(record: PlainRecord, stamp_ms: int, largest_row: int) -> Request | None:
    """Return the request of a record if the kernel is to take it."""
    asked = decode_plain(record)
    if asked is None or asked.to not in _ALLOWED or "/" in asked.to or asked.due_ms > _FURTHEST:
        return None
    if not 0 <= record.timestamp <= _LATEST:
        return None
    if asked.id != asked.source and home_partition(asked.id, _INPUTS, 4) != record.partition:
        return None
    decoded = decode(record)
    decoded.stamp_ms = max(stamp_ms, record.timestamp)
    return decoded if len(encode(row_of(decoded))) <= largest_row else None


def _expected(records: Sequence[PlainRecord], stamp_ms: int, largest_row: int, room: int) -> tuple[Any, ...]:
    found: list[Request] = []
    rows: list[tuple[bytes, bytes]] = []
    size = 0
    for record in records:
        asked = _wanted(record, stamp_ms, largest_row)
        if asked is None or any(asked.id == one.id for one in found):
            break
        found.append(asked)
        stamp_ms = asked.stamp_ms
        rows.append((keys.row_key(asked.due_ms, record.offset, _CRC), encode(row_of(asked))))
        size += len(rows[-1][1]) + 32
        if size >= room:
            break
    events = [
        (one.id.encode(), encode_event(Event("accepted", one.id, NOW, one.source, one.due_ms, one.to))) for one in found
    ]
    ids = [one.id for one in found]
    return (
        len(found),
        stamp_ms,
        size,
        ids,
        [keys.ID + id_.encode() for id_ in ids],
        [key for key, _ in rows],
        [raw for _, raw in rows],
        events,
        list(dict.fromkeys(one.to for one in found)),
    )


@pytest.mark.parametrize("by_kernel", WAYS)
@patient
@given(
    st.lists(_asked(), max_size=12),
    st.integers(0, 3),
    st.integers(0, 14),
    st.sampled_from([0, 7, 2**40]),
    st.sampled_from([-1, NOW, NOW + 3_000]),
    st.sampled_from([1 << 20] * 3 + [300]),
    st.sampled_from([1 << 30] * 3 + [400, 0]),
)
def test_the_longest_run_of_plain_requests_becomes_rows(
    by_kernel: bool,  # noqa: FBT001
    asked: list[Asked],
    begin: int,
    end: int,
    base: int,
    stamp_ms: int,
    largest_row: int,
    room: int,
) -> None:
    way: FastPath = in_rust if by_kernel else in_python
    records = unpacked(asked) if by_kernel else plain_records(asked)
    bounds = RequestBounds(base, _ALLOWED, stamp_ms, _LATEST, _FURTHEST, NOW, room)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_rust, "_extension", kernel)
        rules = way.prepared(InputRules("in", 3, _CRC, _INPUTS, 4, largest_row))
        run = way.requests(rules, records, begin, end, bounds)

    wanted = [moved(plain(record), base) for record in records[begin:end]]
    assert run._replace(events=list(run.events)) == _expected(wanted, stamp_ms, largest_row, room)


def _requests(records: list[Any]) -> int:
    """Return the number of accepted records."""
    rules = kernel.Rules("in", 3, _CRC, _INPUTS, 4, 1 << 20)
    found = kernel.requests(rules, records, 0, 10, 0, {"orders"}, -1, _LATEST, _FURTHEST, NOW, 1 << 20)
    taken: int = found[0]
    return taken


_PLAIN = Asked(NOW, b"k", b"v", [("delay-to", b"orders"), ("delay-at", b"%d" % NOW)])


@needed
def test_records_of_any_other_kind_end_it() -> None:
    first, second = unpacked([_PLAIN, _PLAIN])

    assert _requests([first, second]) == 2
    assert _requests([first, plain(second), second]) == 1
    assert _requests([None, second]) == 0


@needed
@pytest.mark.parametrize(("topic", "partition"), [("in", 2), ("delay-requests", 3)])
def test_a_record_of_another_input_or_partition_ends_it(topic: str, partition: int) -> None:
    (own,), (foreign,) = unpacked([_PLAIN]), unpacked([_PLAIN], 1, topic, partition)

    assert _requests([own, foreign]) == 1
    assert _requests([foreign, own]) == 0
