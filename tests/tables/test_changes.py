"""A step's changes: their effect, and their changelog records."""

from tables import Changes, ColdMark, Position, RememberedCommands, keys
from tables.changes import cold_mark_bytes, position_bytes
from tables.commands import commands_bytes
from tables.entry import encode
from tests.tables.rows import entry, key, put, rewrite


def test_a_new_step_is_empty() -> None:
    assert not Changes()
    assert list(Changes().records(7)) == [(b"w", keys.long_bytes(7))]


def test_records_come_in_the_order_writer_removals_rows_and_marks() -> None:
    changes = Changes()
    changes.positions["orders"] = Position(5, 6, 7)
    changes.origins[keys.origin_key("orders", 1)] = 9
    changes.commands = {"gone": RememberedCommands(1, 2, "orders-0-1"), "expired": None}
    changes.cold_marks = {"cold": ColdMark("orders-0-2", 3, kept=True), "forgotten": None}
    put(changes, key(2), entry("new"))
    changes.remove(key(1), entry("old"))

    assert list(changes.records(3)) == [
        (b"w", keys.long_bytes(3)),
        (key(1), None),
        (key(2), encode(entry("new"))),
        (b"cgone", commands_bytes(RememberedCommands(1, 2, "orders-0-1"))),
        (b"cexpired", None),
        (b"tcold", cold_mark_bytes(ColdMark("orders-0-2", 3, kept=True))),
        (b"tforgotten", None),
        (b"oorders-1", keys.long_bytes(9)),
        (b"porders", position_bytes(Position(5, 6, 7))),
    ]


def test_a_row_that_comes_and_goes_in_one_step_leaves_no_trace() -> None:
    changes = Changes()
    put(changes, key(1), entry())
    changes.remove(key(1), entry())

    assert not changes
    assert not changes.touches(key(1))


def test_a_row_that_is_rewritten_and_removed_in_one_step_is_removed() -> None:
    changes = Changes()
    rewrite(changes, key(1), entry())
    changes.remove(key(1), entry())

    assert list(changes.records(0))[1:] == [(key(1), None)]
    assert changes.touches(key(1))


def test_a_step_knows_about_how_large_it_is() -> None:
    changes = Changes()
    put(changes, key(1), entry())
    one = changes.size
    put(changes, key(2), entry())

    assert 0 < one < changes.size == 2 * one
