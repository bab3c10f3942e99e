"""Where rows go: each to its id's home, none onto another one, now or later, and in the order that they had."""

import itertools
from collections import defaultdict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ops.repartition.errors import TooManyOrigins
from app.ops.repartition.moves import Moves, _Head, first_forward, numbered, origins_of
from punctual.contract.home import home_partition
from tables import Command, Entry, keys
from tables.entry import VERSION, decode, encode
from tests.harness.fuzz import share

INPUTS = ("delay-requests", "orders")
LOGS = (*INPUTS, "delay-forwards")
CRCS = {keys.topic_crc(topic): topic for topic in LOGS}
NOW = 1_795_600_000_000

Row = tuple[int, bytes, bytes]


def entry(id_: str, *commands: Command) -> Entry:
    return Entry(id_, "to", None, b"value", [], "delay-requests-0-0", commands=commands)


def test_the_decoded_head_is_the_beginning_of_a_row() -> None:
    assert Entry.__struct_fields__[: len(_Head.__struct_fields__)] == _Head.__struct_fields__


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, list[Row]]:
    """Draw rows as partitions may hold them: of a partition no two have the same record, ids live where they are."""
    before = draw(st.integers(1, 5))
    after = draw(st.integers(before + 1, 8))
    places = draw(
        st.lists(
            st.tuples(st.integers(0, before - 1), st.integers(0, 6), st.sampled_from(sorted(CRCS))),
            unique=True,
            max_size=30,
        )
    )
    rows: list[Row] = []
    for number, (partition, offset, crc) in enumerate(places):
        due_ms = NOW + draw(st.integers(0, 2))
        if draw(st.booleans()):
            id_ = f"delay-requests-{partition}-{number}"
        else:
            id_ = next(
                name
                for name in (f"{number}-{salt}" for salt in itertools.count())
                if home_partition(name, INPUTS, before) == partition
            )
        commands = (Command("reschedule", "orders-0-1", NOW, offset + 100, crc, 5),) if draw(st.booleans()) else ()
        rows.append((partition, keys.row_key(due_ms, offset, crc), encode(entry(id_, *commands))))
    return before, after, rows


def moves_of(after: int, rows: list[Row], used: int = 0) -> Moves:
    origins = set()
    for partition, key, raw in rows:
        if home_partition(decode(raw).id, INPUTS, after) != partition:
            origins |= origins_of(partition, key, decode(raw).commands)
    return Moves(INPUTS, after, numbered(origins, used))


@given(tables())
@settings(max_examples=share(300), deadline=None)
def test_rows_go_home_and_keep_apart_and_in_order(drawn: tuple[int, int, list[Row]]) -> None:
    _, after, rows = drawn
    moves = moves_of(after, rows)
    suffixes: dict[int, set[tuple[int, int]]] = defaultdict(set)
    order: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for partition, key, raw in sorted(rows, key=lambda row: row[1]):
        home, new, value = moves.row(partition, key, raw)
        was, now = decode(raw), decode(value)
        assert home == home_partition(was.id, INPUTS, after)
        assert keys.due_of(new) == keys.due_of(key)
        assert msgspec.structs.replace(now, commands=was.commands) == was
        if home == partition:
            assert (new, value) == (key, raw)
        else:
            assert keys.suffix_of(new)[1] < keys.MOVED
        # Whatever its due time becomes, no two rows of a partition get the same key.
        for suffix in (keys.suffix_of(new), *((one.offset, one.topic_crc) for one in now.commands)):
            assert suffix not in suffixes[home]
            suffixes[home].add(suffix)
        order[partition, home].append(new)
    for together in order.values():
        assert [keys.suffix_of(key)[0] for key in together] == [keys.suffix_of(key)[0] for key in sorted(together)]


@given(tables())
@settings(max_examples=share(100), deadline=None)
def test_no_record_to_come_gets_the_key_of_a_row_that_has_moved(drawn: tuple[int, int, list[Row]]) -> None:
    _, after, rows = drawn
    moves = moves_of(after, rows)
    for partition, key, raw in rows:
        home, new, _ = moves.row(partition, key, raw)
        offset, crc = keys.suffix_of(new)
        if home != partition:
            assert crc not in CRCS
        forwarded = first_forward(offset)
        assert forwarded.offset + forwarded.base > offset


@given(tables(), st.integers(9, 12))
@settings(max_examples=share(100), deadline=None)
def test_it_can_be_done_once_more(drawn: tuple[int, int, list[Row]], again: int) -> None:
    _, after, rows = drawn
    first = moves_of(after, rows)
    once: list[Row] = [first.row(*row) for row in rows]
    used = max((crc for _, key, _ in once if (crc := keys.suffix_of(key)[1]) < keys.MOVED), default=0)
    used = max((used, *(c.topic_crc for _, _, raw in once for c in decode(raw).commands if c.topic_crc < keys.MOVED)))
    second = moves_of(again, once, used)
    twice = [second.row(*row) for row in once]
    assert len({(home, keys.suffix_of(key)) for home, key, _ in twice}) == len(rows)


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_rows_keep_their_version(version: int) -> None:
    command = Command("reschedule", "orders-0-1", NOW, 7, keys.topic_crc("orders"))
    raw = encode(entry("a", command), version)
    key = keys.row_key(NOW, 3, keys.topic_crc("orders"))
    home = home_partition("a", INPUTS, 5)
    partition = (home + 1) % 5
    moved = moves_of(5, [(partition, key, raw)]).row(partition, key, raw)
    assert (moved.partition, moved.raw[0]) == (home, version)
    assert decode(moved.raw).commands[0].topic_crc < keys.MOVED


def test_a_command_that_makes_no_key_is_left_as_it_is() -> None:
    cancel = Command("cancel", "orders-0-1")
    raw = encode(entry("a", cancel))
    key = keys.row_key(NOW, 3, keys.topic_crc("orders"))
    partition = (home_partition("a", INPUTS, 5) + 1) % 5
    assert moves_of(5, [(partition, key, raw)]).row(partition, key, raw).raw == raw


def test_numbers_are_the_same_each_time_and_continue_after_used_ones() -> None:
    assert numbered({(1, 9), (0, 7)}, 4) == {(0, 7): 5, (1, 9): 6}


def test_there_is_an_end_to_numbers() -> None:
    with pytest.raises(TooManyOrigins, match="rows come from"):
        numbered({(0, 1), (0, 2)}, keys.MOVED - 2)
