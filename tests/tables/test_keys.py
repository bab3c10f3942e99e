"""Row keys: frozen bytes that sort by due time, then arrival, before everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import keys

DUES = st.integers(0, keys.MAX_DUE_MS)
OFFSETS = st.integers(0, (1 << 63) - 1)
CRCS = st.integers(0, (1 << 32) - 1)
PARTS = st.tuples(DUES, OFFSETS, CRCS)


@pytest.mark.parametrize(
    ("due_ms", "offset", "topic", "frozen"),
    [
        (0, 0, "delay-requests", "0000000000000000 0000000000000000 8c51ba57"),
        (1_767_225_600_000, 1042, "delay-requests", "0000019b76daa800 0000000000000412 8c51ba57"),
        (1_767_225_600_000, 1042, "delay-forwards", "0000019b76daa800 0000000000000412 e8e61437"),
        (keys.MAX_DUE_MS, (1 << 63) - 1, "ü", "007fffffffffffff 7fffffffffffffff 63d969d5"),
    ],
)
def test_the_bytes_of_a_row_key_are_frozen(due_ms: int, offset: int, topic: str, frozen: str) -> None:
    assert keys.row_key(due_ms, offset, keys.topic_crc(topic)) == bytes.fromhex(frozen)


def test_the_kinds_of_keys_are_frozen() -> None:
    assert (keys.COMMANDS, keys.DELIVERED, keys.ORIGIN, keys.POSITION) == (b"c", b"d", b"o", b"p")
    assert (keys.COLD, keys.WRITER, keys.SEAL) == (b"t", b"w", b"s")
    local = (keys.BUCKET, keys.EXPIRY, keys.ID, keys.META, keys.COUNT, keys.SHARE)
    assert local == (b"b", b"e", b"i", b"m", b"n", b"s")
    assert keys.ROWS_END == b"\x01"
    assert keys.BUCKET_MS == 3_600_000
    assert keys.origin_key("orders-x", 12) == b"oorders-x-12"
    assert keys.expiry_key(keys.COMMANDS, 258, b"a") == b"ec\0\0\0\0\0\0\1\2a"


@given(PARTS, PARTS)
def test_rows_sort_by_due_time_then_offset_then_topic(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (keys.row_key(*one) < keys.row_key(*other)) == (one < other)


@given(PARTS)
def test_every_row_sorts_before_everything_that_is_no_row(parts: tuple[int, int, int]) -> None:
    row = keys.row_key(*parts)

    assert row < keys.ROWS_END
    assert len(row) == keys.ROW_SIZE == 20
    assert keys.is_row(row)
    assert keys.due_of(row) == parts[0]


@given(st.text(max_size=20), st.integers(0, 10**15))
def test_every_other_kind_sorts_after_the_rows_and_is_none(name: str, number: int) -> None:
    raw = name.encode("utf-8", "ignore")
    others = [kind + raw for kind in (b"c", b"d", b"o", b"p", b"t", b"w", b"b", b"i", b"m", b"n")]
    others += [
        keys.expiry_key(keys.COMMANDS, number, raw),
        keys.origin_key(name, number % 10_000) if raw.decode() == name else b"o",
    ]

    assert all(other >= keys.ROWS_END for other in others)
    assert not any(map(keys.is_row, others))


@given(DUES, PARTS)
def test_the_bound_of_a_time_includes_exactly_the_messages_due_by_then(
    now_ms: int, parts: tuple[int, int, int]
) -> None:
    assert (keys.row_key(*parts) < keys.due_bound(now_ms)) == (parts[0] <= now_ms)


@given(DUES, DUES, st.text(max_size=10))
def test_remembered_ids_sort_by_their_expiry(one: int, other: int, name: str) -> None:
    raw = name.encode("utf-8", "ignore")

    first, second = (keys.expiry_key(keys.DELIVERED, end, raw) for end in (one, other))
    assert (first < second) == (one < other)
