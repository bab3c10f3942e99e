"""The encoded row: frozen bytes that every later version must read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import Bound, ColdMark, Command, Entry, Position, RecordStamp, RememberedCommands, Series, UnknownRowVersion
from tables.changes import (
    RememberedDelivery,
    cold_mark_bytes,
    decode_cold_mark,
    decode_delivered,
    decode_position,
    delivered_bytes,
    position_bytes,
)
from tables.commands import commands_bytes, decode_commands
from tables.entry import RECURRING, VERSION, decode, encode, may_recur

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


SECOND = msgspec.structs.replace(
    FULL,
    commands=tuple(
        msgspec.structs.replace(command, stamp_ms=1_767_225_500_000 + n) for n, command in enumerate(FULL.commands)
    ),
    stamp_ms=1_767_225_400_000,
    asked_by="delay-requests-3-41",
    moved=RecordStamp(1_767_225_400_001, "delay-requests-0-7"),
)
FROZEN_2 = bytes.fromhex(
    "02dc0012a86f726465722d3137a972656d696e64657273c4016bc09292a161c4013192a161c0b364656c61792d7265717565"
    "7374732d332d343202a4656d6561cd1388a464726f70cdea60b868747470733a2f2f6578616d706c652e636f6d2f6261636b"
    "019297aa72657363686564756c65b364656c61792d72657175657374732d332d3530cf0000019b76daa8003207cf0000019b"
    "76d92160c097a77265706c616365b364656c61792d72657175657374732d332d3531000000cf0000019b76d92161c0b76874"
    "7470733a2f2f6578616d706c652e636f6d2f75726ccf0000019b76d79ac0b364656c61792d72657175657374732d332d3431"
    "92cf0000019b76d79ac1b264656c61792d72657175657374732d302d37"
)
THIRD = msgspec.structs.replace(
    SECOND,
    bound=Bound(1_767_225_300_000, 10_000, RecordStamp(1_767_225_400_000, "delay-requests-3-41"), 1_767_225_310_001),
    next_try_ms=1_767_225_600_500,
)
FROZEN_3 = bytes.fromhex(
    "03dc0014a86f726465722d3137a972656d696e64657273c4016bc09292a161c4013192a161c0b364656c61792d7265717565"
    "7374732d332d343202a4656d6561cd1388a464726f70cdea60b868747470733a2f2f6578616d706c652e636f6d2f6261636b"
    "019297aa72657363686564756c65b364656c61792d72657175657374732d332d3530cf0000019b76daa8003207cf0000019b"
    "76d92160c097a77265706c616365b364656c61792d72657175657374732d332d3531000000cf0000019b76d92161c0b76874"
    "7470733a2f2f6578616d706c652e636f6d2f75726ccf0000019b76d79ac0b364656c61792d72657175657374732d332d3431"
    "92cf0000019b76d79ac1b264656c61792d72657175657374732d302d3794cf0000019b76d61420cd271092cf0000019b76d7"
    "9ac0b364656c61792d72657175657374732d332d3431cf0000019b76d63b31cf0000019b76daa9f4"
)
LATEST = msgspec.structs.replace(THIRD, series=Series(b"rule", 1_767_225_600_000, 2))
FROZEN_4 = bytes.fromhex(
    "04dc0015a86f726465722d3137a972656d696e64657273c4016bc09292a161c4013192a161c0b364656c61792d7265717565"
    "7374732d332d343202a4656d6561cd1388a464726f70cdea60b868747470733a2f2f6578616d706c652e636f6d2f6261636b"
    "019297aa72657363686564756c65b364656c61792d72657175657374732d332d3530cf0000019b76daa8003207cf0000019b"
    "76d92160c097a77265706c616365b364656c61792d72657175657374732d332d3531000000cf0000019b76d92161c0b76874"
    "7470733a2f2f6578616d706c652e636f6d2f75726ccf0000019b76d79ac0b364656c61792d72657175657374732d332d3431"
    "92cf0000019b76d79ac1b264656c61792d72657175657374732d302d3794cf0000019b76d61420cd271092cf0000019b76d7"
    "9ac0b364656c61792d72657175657374732d332d3431cf0000019b76d63b31cf0000019b76daa9f493c40472756c65cf0000"
    "019b76daa80002"
)


def test_the_bytes_of_a_row_are_frozen() -> None:
    assert encode(FULL, 1) == FROZEN
    assert decode(FROZEN) == FULL
    assert encode(SECOND, 2) == FROZEN_2
    assert decode(FROZEN_2) == SECOND
    assert encode(THIRD, 3) == FROZEN_3
    assert decode(FROZEN_3) == THIRD
    assert encode(LATEST) == FROZEN_4
    assert decode(FROZEN_4) == LATEST


def test_fields_that_an_older_version_lacks_are_left_out() -> None:
    assert (encode(LATEST, 1), encode(LATEST, 2), encode(LATEST, 3)) == (FROZEN, FROZEN_2, FROZEN_3)


def test_a_row_begins_with_its_version() -> None:
    assert VERSION == 4
    assert [encode(FULL, version)[0] for version in (1, 2, 3, 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("version", [0, 5, 255])
def test_a_row_of_another_version_is_refused_with_what_to_do(version: int) -> None:
    with pytest.raises(UnknownRowVersion) as raised:
        decode(bytes([version]) + FROZEN[1:])

    assert str(raised.value) == (
        f"a row has version {version}, but this worker supports at most 4. Upgrade this worker: a newer worker has "
        "written to the changelog."
    )


def test_a_row_with_fewer_fields_is_read_with_the_rest_at_their_defaults() -> None:
    raw = b"\x01" + msgspec.msgpack.encode(["a", "orders", b"k", b"v", [], "delay-requests-0-1"])

    assert decode(raw) == Entry("a", "orders", b"k", b"v", [], "delay-requests-0-1")
    assert decode(raw).commands == ()


def test_a_row_with_more_fields_is_read_without_them() -> None:
    raw = b"\x01" + msgspec.msgpack.encode([*msgspec.msgpack.decode(FROZEN_4[1:]), "from the future"])

    assert decode(raw) == LATEST


def test_a_damaged_row_is_no_row() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(FROZEN[:-3])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BYTES = st.none() | st.binary(max_size=50)
COMMANDS = st.builds(
    Command,
    st.sampled_from(["cancel", "reschedule", "deliver-now", "pause", "resume", "replace"]),
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
def test_a_written_entry_is_read_back_unchanged(entry: Entry) -> None:
    assert decode(encode(entry)) == entry


def test_the_bytes_of_positions_and_marks_are_frozen() -> None:
    delivered = RememberedDelivery(1_767_225_600_000, 5)
    position = Position(1042, 1_767_225_600_000, 7)
    stamped = Position(1042, 1_767_225_600_000, 7, 0, 1_767_225_600_001)
    cancel = RememberedCommands(1_767_225_600_000, 1_767_226_200_000, "orders-0-9")
    moved = Command("reschedule", "orders-0-11", 7, 8, 9, 1_767_225_600_002)
    waiting = RememberedCommands.of(
        1_767_226_200_000, RecordStamp(1_767_225_600_001, "orders-0-10"), (moved,), cancelled=False
    )
    told = ColdMark("orders-0-9", 1_767_226_200_000, kept=True)

    assert position_bytes(position).hex() == "96cd0412cf0000019b76daa8000700ffa0"
    assert commands_bytes(cancel).hex() == "96cf0000019b76daa800cf0000019b76e3cfc0aa6f72646572732d302d39c0c390"
    assert delivered_bytes(delivered).hex() == "92cf0000019b76daa80005"
    assert cold_mark_bytes(told).hex() == "93aa6f72646572732d302d39cf0000019b76e3cfc0c3"
    assert decode_cold_mark(cold_mark_bytes(told)) == told
    assert decode_delivered(delivered_bytes(delivered)) == delivered
    assert position_bytes(stamped).hex() == "96cd0412cf0000019b76daa8000700cf0000019b76daa801a0"
    assert decode_position(position_bytes(position)) == position
    assert decode_position(position_bytes(stamped)) == stamped
    assert decode_position(bytes.fromhex("94cd0412cf0000019b76daa8000700")) == position
    assert decode_position(bytes.fromhex("95cd0412cf0000019b76daa8000700ff")) == position
    assert decode_position(bytes.fromhex("93cd0412cf0000019b76daa80007")) == position
    assert commands_bytes(waiting).hex() == (
        "96cf0000019b76daa801cf0000019b76e3cfc0ab6f72646572732d302d3130c0c29197aa72657363686564756c65ab6f72646572732d302d3131070809cf0000019b76daa802c0"
    )
    assert decode_commands(commands_bytes(cancel)) == cancel
    assert decode_commands(commands_bytes(waiting)) == waiting
    assert decode_commands(bytes.fromhex("93cf0000019b76daa800cf0000019b76e3cfc0aa6f72646572732d302d39")) == cancel


@given(number=st.integers(1, (1 << 63) - 1) | st.sampled_from([0xC0, 0x1C0, 0xFFC0, 0x100C0, 0x1_0000_00C0]))
def test_no_series_is_taken_for_a_message_that_does_not_recur(number: int) -> None:
    assert may_recur(encode(msgspec.structs.replace(FULL, series=Series(b"rule", 1_767_225_600_000, number))))


@pytest.mark.parametrize("next_try_ms", [None, 0, 5, 1_767_225_600_000])
def test_a_message_that_does_not_recur_is_seen_not_to_without_decoding_it(next_try_ms: int | None) -> None:
    once = msgspec.structs.replace(FULL, next_try_ms=next_try_ms)
    assert not may_recur(encode(once))
    assert not any(may_recur(encode(once, version)) for version in range(1, RECURRING))
