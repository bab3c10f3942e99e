"""The encoded row: frozen bytes that every later version must read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import Cancel, Command, Entry, Position, Told, UnknownRowVersion
from tables.changes import (
    Delivered,
    cancel_bytes,
    decode_cancel,
    decode_delivered,
    decode_position,
    decode_told,
    delivered_bytes,
    position_bytes,
    told_bytes,
)
from tables.entry import VERSION, decode, encode

FULL = Entry(
    "order-17",
    "reminders",
    b"k",
    None,
    [("a", b"1"), ("a", None)],
    "delay-requests-3-42",
    2,
    "emea",
    5_000,
    "drop",
    60_000,
    "https://example.com/back",
    1,
    (Command("reschedule", "delay-requests-3-50", 1_767_225_600_000, 50, 7), Command("replace", "delay-requests-3-51")),
    "https://example.com/url",
)
FROZEN = bytes.fromhex(
    "019fa86f726465722d3137a972656d696e64657273c4016bc09292a161c4013192a161c0b364656c61792d72657175657374"
    "732d332d343202a4656d6561cd1388a464726f70cdea60b868747470733a2f2f6578616d706c652e636f6d2f6261636b0192"
    "95aa72657363686564756c65b364656c61792d72657175657374732d332d3530cf0000019b76daa800320795a77265706c61"
    "6365b364656c61792d72657175657374732d332d3531000000b768747470733a2f2f6578616d706c652e636f6d2f75726c"
)


def test_the_bytes_of_a_row_are_frozen() -> None:
    assert encode(FULL) == FROZEN
    assert decode(FROZEN) == FULL


def test_a_row_begins_with_its_version() -> None:
    assert VERSION == 1
    assert encode(FULL)[0] == 1


@pytest.mark.parametrize("version", [0, 2, 255])
def test_a_row_of_another_version_is_refused_with_what_to_do(version: int) -> None:
    with pytest.raises(UnknownRowVersion) as raised:
        decode(bytes([version]) + FROZEN[1:])

    assert str(raised.value) == (
        f"a row has version {version}, this worker knows versions up to 1. "
        "Upgrade this worker: a newer one has written to the changelog."
    )


def test_a_row_with_fewer_fields_is_read_with_the_rest_at_their_defaults() -> None:
    raw = b"\x01" + msgspec.msgpack.encode(["a", "orders", b"k", b"v", [], "delay-requests-0-1"])

    assert decode(raw) == Entry("a", "orders", b"k", b"v", [], "delay-requests-0-1")
    assert decode(raw).commands == ()


def test_a_row_with_more_fields_is_read_without_them() -> None:
    raw = b"\x01" + msgspec.msgpack.encode([*msgspec.msgpack.decode(FROZEN[1:]), "from the future"])

    assert decode(raw) == FULL


def test_a_damaged_row_is_no_row() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(FROZEN[:-3])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BYTES = st.none() | st.binary(max_size=50)
COMMANDS = st.builds(
    Command,
    st.sampled_from(["cancel", "reschedule", "deliver-now", "replace"]),
    TEXT,
    st.integers(0, 1 << 55),
    st.integers(0, 1 << 62),
    st.integers(0, (1 << 32) - 1),
)
ENTRIES = st.builds(
    Entry,
    TEXT,
    TEXT,
    BYTES,
    BYTES,
    st.lists(st.tuples(TEXT, BYTES), max_size=4),
    TEXT,
    commands=st.lists(COMMANDS, max_size=3).map(tuple),
    max_late_ms=st.none() | st.integers(0, 10**15),
)


@given(ENTRIES)
def test_what_is_written_is_read_back(entry: Entry) -> None:
    assert decode(encode(entry)) == entry


def test_the_bytes_of_positions_and_marks_are_frozen() -> None:
    delivered = Delivered(1_767_225_600_000, 5)
    position = Position(1042, 1_767_225_600_000, 7)
    cancel = Cancel(1_767_225_600_000, 1_767_226_200_000, "orders-0-9")
    told = Told("orders-0-9", 1_767_226_200_000, kept=True)

    assert position_bytes(position).hex() == "94cd0412cf0000019b76daa8000700"
    assert cancel_bytes(cancel).hex() == "94cf0000019b76daa800cf0000019b76e3cfc0aa6f72646572732d302d39c0"
    assert delivered_bytes(delivered).hex() == "92cf0000019b76daa80005"
    assert told_bytes(told).hex() == "93aa6f72646572732d302d39cf0000019b76e3cfc0c3"
    assert decode_told(told_bytes(told)) == told
    assert decode_delivered(delivered_bytes(delivered)) == delivered
    assert decode_position(position_bytes(position)) == position
    assert decode_position(bytes.fromhex("93cd0412cf0000019b76daa80007")) == position
    assert decode_cancel(cancel_bytes(cancel)) == cancel
    assert decode_cancel(bytes.fromhex("93cf0000019b76daa800cf0000019b76e3cfc0aa6f72646572732d302d39")) == cancel
