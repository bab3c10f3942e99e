"""Rows are counted by minute up to the scanned time, and the counts stay correct as rows change."""

import random
from pathlib import Path

from tables import Changes, PartitionStore, keys
from tables.near_counts import MINUTE_MS
from tests.tables.rows import NOW, apply, assert_sound, entry, filled, key, put

MINUTE = NOW - NOW % MINUTE_MS


def at(minute: float) -> int:
    return MINUTE + round(minute * MINUTE_MS)


def test_counts_are_unknown_before_the_first_look_and_known_to_the_end_of_the_minute_afterwards(tmp_path: Path) -> None:
    rows = {key(at(minute), offset): entry(f"id-{offset}") for offset, minute in enumerate((-9, 0, 0.99, 1, 1.5, 30))}
    store, near = (made := filled(tmp_path / "x.db", rows)), made.counts.near
    assert near.due_by(at(0)) is None
    assert store.look_ahead(at(2) - 1, 100)
    assert [near.due_by(at(minute)) for minute in (0, 0.5, 1.99, 2)] == [3, 3, 5, None]
    near.forget()
    assert (near.due_by(at(0)), near.minutes) == (None, {})


def test_a_look_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(at(0.1), offset): entry(f"id-{offset}") for offset in range(25)})
    assert [store.look_ahead(at(5), 10) for _ in range(4)] == [False, False, True, True]
    assert store.counts.near.due_by(at(1)) == 25
    assert_sound(store)


def test_changes_count_before_the_position_of_a_look_and_after_it_once_it_is_reached(
    tmp_path: Path,
) -> None:
    random_ = random.Random(7)  # noqa: S311 - the same rows each time
    store, there = PartitionStore(tmp_path / "x.db"), dict[bytes, str]()
    for number in range(60):
        changes = Changes()
        for place in range(random_.randrange(8)):
            row, id_ = key(at(random_.uniform(-5, 70)), number * 10 + place), f"id-{number}-{place}"
            put(changes, row, entry(id_))
            there[row] = id_
        for row in random_.sample(sorted(there), min(len(there), random_.randrange(6))):
            if row not in changes.puts:
                changes.remove(row, entry(there.pop(row)))
        apply(store, changes)
        if random_.random() < 0.5:
            store.look_ahead(at(number), random_.randrange(1, 20))
        if number == 40:
            store.counts.near.forget()
        assert_sound(store)
    while not store.look_ahead(at(70), 3):
        assert_sound(store)
    assert store.counts.near.due_by(at(69)) == sum(keys.due_of(row) < at(70) for row in there)
