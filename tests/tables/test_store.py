"""Edge cases of the store: clashes of ids, marks, locks, damage, and where reads begin."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import rocksdict

from tables import (
    Changes,
    ColdMark,
    Command,
    Entry,
    PartitionStore,
    RememberedCommands,
    StoreCorrupt,
    StoreLocked,
    UnknownRecordKind,
    keys,
)
from tables.changes import RememberedDelivery, cold_mark_bytes, delivered_bytes
from tables.commands import commands_bytes
from tables.database import DatabaseScan
from tables.entry import encode
from tables.store import FORMAT
from tests.harness.waiting import PROGRAM_S
from tests.tables.rows import NOW, apply, assert_sound, entry, filled, image, key, put, rewrite

REPLACED = Command("replace", "delay-requests-0-9")


def test_a_new_store_is_empty(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")

    assert (store.offset, store.seen_ms, store.writer) == (0, 0, 0)
    assert (store.positions, store.origins, store.counts.total) == ({}, {}, 0)
    assert store.due(NOW, b"", 10) == ([], None)
    assert [store.next_row(b""), store.find("a"), store.raw(key(1))] == [None, None, None]
    assert store.entry(key(1)) is None
    assert store.commands.get("a") is None
    assert store.delivered.get("a") is None
    assert store.commands.get_many(["a", "b"]) == [None, None]
    assert store.commands.expired(NOW, 10) == []


def test_a_step_is_written_with_the_offset_that_it_stands_for(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    store.apply(Changes(), 17, 5, NOW)
    store.close()
    store = PartitionStore(tmp_path / "x.db")

    assert (store.offset, store.writer, store.seen_ms) == (17, 5, NOW)


def test_the_value_that_the_changelog_has_under_a_key_can_be_read_as_it_is(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(1): entry()})

    assert store.raw(key(1)) == encode(entry())
    assert store.entry(key(1)) == entry()


# ids that two rows have ---------------------------------------------------------------------------------------------
def test_a_row_that_is_marked_as_replaced_leaves_its_id_to_the_later_one(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(1): entry()})
    changes = Changes()
    rewrite(changes, key(1), entry("a", "orders", REPLACED))
    put(changes, key(2), entry())
    apply(store, changes)

    assert store.find("a") == key(2)
    changes = Changes()
    changes.remove(key(1), entry("a", "orders", REPLACED))
    apply(store, changes)
    assert store.find("a") == key(2)
    assert_sound(store)


def test_an_id_is_nobodys_when_the_later_row_goes_first(tmp_path: Path) -> None:
    for together in (True, False):
        store = filled(tmp_path / f"{together}.db", {key(1): entry()})
        changes = Changes()
        rewrite(changes, key(1), entry("a", "orders", REPLACED))
        put(changes, key(2), entry())
        if not together:
            apply(store, changes)
            changes = Changes()
        changes.remove(key(2), entry())
        apply(store, changes)

        assert store.find("a") is None
        assert_sound(store)


def test_a_row_of_the_same_id_found_in_recovery_is_a_clash_and_the_later_one_has_the_id(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    store.replay([(key(5), encode(entry())), (key(3), encode(entry()))], 2, NOW)

    assert store.clashes == {key(5)}
    assert store.find("a") == key(3)
    changes = Changes()
    changes.remove(key(5), entry())
    apply(store, changes)
    assert store.find("a") == key(3)
    assert store.clashes == set()


def test_a_clash_that_the_changelog_itself_ends_is_none(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    store.replay([(key(5), encode(entry()))], 1, NOW)
    store.replay([(key(3), encode(entry()))], 2, NOW)
    store.replay([(key(5), None)], 3, NOW)

    assert store.clashes == set()
    assert store.find("a") == key(3)
    assert_sound(store)


def test_a_failure_callback_has_no_claim_to_the_id_of_its_message(tmp_path: Path) -> None:
    callback = Entry("a", "", None, b"{}", [], "delay-requests-0-0", url="https://example.com")
    store = filled(tmp_path / "x.db", {key(1): entry(), key(2): callback})

    assert store.find("a") == key(1)
    restored = PartitionStore(tmp_path / "y.db")
    restored.replay([(key(1), encode(entry())), (key(2), encode(callback))], 2, NOW)
    assert image(restored) == image(store)
    changes = Changes()
    changes.remove(key(2), callback)
    apply(store, changes)
    assert store.find("a") == key(1)


def test_the_writers_epoch_only_grows_in_recovery(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    store.replay([(keys.WRITER, keys.long_bytes(4))], 1, NOW)
    store.replay([(keys.WRITER, keys.long_bytes(3)), (keys.WRITER, None)], 3, NOW)

    assert store.writer == 4


def test_counts_are_right_after_a_replay_in_which_rows_come_and_go(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    rows: list[tuple[bytes, bytes | None]] = [
        (key(number * 500_000, number), encode(entry(f"id-{number}", f"topic-{number % 7}"))) for number in range(5_000)
    ]
    gone: list[tuple[bytes, bytes | None]] = [(row, None) for row, _ in rows[::3]]
    for number, begin in enumerate(range(0, 5_000, 1_000)):
        store.replay(rows[begin : begin + 1_000], number, NOW)
    store.replay(gone, 5_001, NOW)
    store.replay(gone + rows[:3] + gone[:1], 5_005, NOW)

    assert store.counts.total == 5_000 - len(gone)
    assert_sound(store)
    store.close()
    assert_sound(PartitionStore(tmp_path / "x.db"))


# reads that stay short ----------------------------------------------------------------------------------------------
def test_a_new_row_below_the_low_water_mark_is_found(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(10): entry()})
    store.begin_at(key(10))
    changes = Changes()
    put(changes, key(5), entry("b"))
    apply(store, changes)

    assert store.next_row(b"") == key(5)
    store.begin_at(key(10))
    store.replay([(key(7), encode(entry("c")))], store.offset + 1, NOW)
    assert store.next_row(b"") == key(7)


def test_reading_the_next_rows_does_not_scan_delivered_ones(tmp_path: Path) -> None:
    number = 30_000
    store = filled(tmp_path / "x.db", {key(NOW, offset): entry(f"{offset}") for offset in range(number)})
    changes = Changes()
    for offset in range(number):
        changes.remove(key(NOW, offset), entry(f"{offset}"))
    put(changes, key(NOW + 1), entry("head"))
    apply(store, changes)
    wading = shortest(lambda: store.next_row(b""))
    store.begin_at(key(NOW, number))

    assert store.next_row(b"") == key(NOW + 1)
    assert [row for row, _ in store.due(NOW + 1, b"", 10)[0]] == [key(NOW + 1)]
    assert store.count(0, NOW + 1, 10) == 1
    assert shortest(lambda: store.next_row(b"")) < max(wading / 10, 0.001)


def shortest(look: Callable[[], object]) -> float:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        look()
        times.append(time.perf_counter() - began)
    return min(times)


def test_a_read_is_limited_by_time_and_number(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(due): entry(f"{due}") for due in range(10)})

    assert [keys.due_of(row) for row, _ in store.due(5, b"", 100)[0]] == [0, 1, 2, 3, 4, 5]
    assert [keys.due_of(row) for row, _ in store.due(5, key(2) + b"\0", 2)[0]] == [3, 4]
    assert store.count(3, 8, 100) == 6
    assert store.count(3, 8, 4) == 4


def test_reads_are_served_from_rows_that_were_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path / "x.db", {key(due): entry(f"{due}") for due in range(1000)})
    looked = []
    scan = store._db.scan

    def look(start: bytes, end: bytes) -> DatabaseScan:
        looked.append(start)
        return scan(start, end)

    monkeypatch.setattr(store._db, "scan", look)
    found, start = [], b""
    for now in range(0, 100, 5):
        rows, then = store.due(now, start, 100)
        found += [keys.due_of(row) for row, _ in rows]
        assert then == key(now + 1)
        start = rows[-1][0] + b"\0"

    assert found == list(range(96))
    assert len(looked) == 2


def test_large_rows_are_not_kept_once_they_are_given_and_few_are_read_ahead(tmp_path: Path) -> None:
    large = Entry("a", "orders", None, b"x" * 50_000, [], "delay-requests-0-0")
    store = filled(tmp_path / "x.db", {key(due): large for due in range(100)})
    rows, _ = store.due(50, b"", 1_000)

    assert len(rows) == 51
    assert len(store._ahead._rows) == 2


def test_a_look_finds_some_megabytes_at_a_time(tmp_path: Path) -> None:
    large = Entry("a", "orders", None, b"x" * 500_000, [], "delay-requests-0-0")
    store = filled(tmp_path / "x.db", {key(due): large for due in range(50)})
    found, looks = list[int](), 0
    start: bytes | None = b""
    while start is not None:
        rows, start = store.due(60, start, 1_000)
        assert sum(len(raw) for _, raw in rows) < 10_000_000
        found, looks = found + [keys.due_of(row) for row, _ in rows], looks + 1

    assert found == [*range(50)]
    assert looks < 6


def test_large_rows_behind_small_ones_are_not_kept_either(tmp_path: Path) -> None:
    large = Entry("a", "orders", None, b"x" * 50_000, [], "delay-requests-0-0")
    rows = {key(due): entry(f"{due}") if due < 15 else large for due in range(100)}
    store = filled(tmp_path / "x.db", rows)

    first, then = store.due(0, b"", 1_000)
    assert sum(len(raw) for _, raw in store._ahead._rows) < 3 * 50_000
    found, last = store.due(99, first[-1][0] + b"\0", 50)

    assert (then, [keys.due_of(row) for row, _ in found], last) == (key(1), [*range(1, 51)], key(51))
    assert sum(len(raw) for _, raw in store._ahead._rows) < 3 * 50_000


def test_rows_put_moved_or_removed_in_the_range_read_ahead_are_seen(tmp_path: Path) -> None:
    rows = {key(due, due): entry(f"{due}") for due in range(10, 20, 2)}
    store = filled(tmp_path / "x.db", rows)
    assert store.due(10, b"", 10) == ([(key(10, 10), store.raw(key(10, 10)))], key(12, 12))
    changes = Changes()
    changes.remove(key(14, 14), rows[key(14, 14)])
    put(changes, key(13, 30), entry("new"))
    apply(store, changes)

    found, then = store.due(16, key(11), 10)

    assert [keys.due_of(row) for row, _ in found] == [12, 13, 16]
    assert then == key(18, 18)


# opening ------------------------------------------------------------------------------------------------------------
def test_a_store_that_this_process_has_open_is_locked(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")

    with pytest.raises(StoreLocked) as raised:
        PartitionStore(tmp_path / "x.db")

    assert str(raised.value) == (
        f"the database {tmp_path / 'x.db'} is in use by another process. Give each worker a data directory of its own "
        "(DATADIR or PORT), or stop the other worker."
    )
    store.close()
    PartitionStore(tmp_path / "x.db").close()


@pytest.mark.slow
def test_a_store_that_another_process_has_open_is_locked(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    code = "import sys, pathlib, tables; tables.PartitionStore(pathlib.Path(sys.argv[1]))"
    other = subprocess.run(
        [sys.executable, "-c", code, str(store.path)], capture_output=True, text=True, check=False, timeout=PROGRAM_S
    )

    assert "tables.errors.StoreLocked" in other.stderr


def test_a_damaged_store_says_that_it_is_only_a_copy_also_if_its_path_speaks_of_locks(tmp_path: Path) -> None:
    path = tmp_path / "clocks" / "x.db"
    path.parent.mkdir()
    PartitionStore(path).close()
    for manifest in path.glob("MANIFEST-*"):
        manifest.write_bytes(b"rubbish" * 100)

    with pytest.raises(StoreCorrupt) as raised:
        PartitionStore(path)

    assert str(raised.value).startswith(f"the database {path} is damaged (")
    assert str(raised.value).endswith(
        "It is only a copy of the changelog. When a worker next opens it, the worker deletes it and restores it "
        "from the changelog."
    )


@pytest.mark.parametrize("value", [b"x", None])
def test_a_changelog_record_of_an_unknown_kind_is_from_a_newer_version(tmp_path: Path, value: bytes | None) -> None:
    store = PartitionStore(tmp_path / "x.db")
    with pytest.raises(UnknownRecordKind) as raised:
        store.replay([(key(1), encode(entry())), (b"zebra", value)], 2, NOW)

    assert str(raised.value) == (
        "the changelog has a record of an unknown kind (its key is b'zebra'). Upgrade this worker: a newer worker "
        "has written to the changelog."
    )
    store.close()
    store = PartitionStore(tmp_path / "x.db")
    assert (store.offset, store.counts.total) == (0, 0)


def test_a_store_of_an_earlier_version_is_read_and_then_restored_by_earlier_versions(tmp_path: Path) -> None:
    """Older workers would not understand the marks of the cold tier."""
    store = filled(tmp_path / "x.db", {key(1): entry()})
    batch = rocksdict.WriteBatch(raw_mode=True)
    batch.put(keys.META + b"format", keys.long_bytes(1))
    store._db.write(batch)
    store.close()
    store = PartitionStore(tmp_path / "x.db")

    assert (store.format, store.entry(key(1))) == (1, entry())
    apply(store, Changes())
    store.close()
    store = PartitionStore(tmp_path / "x.db")
    assert (store.format, FORMAT) == (2, 5)


def test_earlier_versions_restore_a_store_from_its_first_row_of_a_newer_version_on(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    for version, format_ in ((1, 2), (2, 3), (1, 3), (3, 4), (2, 4), (4, 5), (3, 5)):
        changes = Changes()
        changes.put(key(version), entry(str(version)), encode(entry(str(version)), version))
        apply(store, changes)
        assert (store.format, store.row_version) == (format_, format_ - 1)
    for version in (3, 2, 1):
        store.holds_version(version)
        store.close()
        store = PartitionStore(tmp_path / "x.db")
        assert (store.format, store.row_version) == (version + 1, version)


def test_restored_rows_of_a_newer_version_make_it_one_too(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    for version in (1, 2, 3):
        store.replay([(key(version), encode(entry("a"), version))], version, NOW)
        assert store.format == version + 1


def test_a_wiped_store_is_gone_from_the_disk(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(1): entry()})
    store.wipe()

    assert not store.path.exists()
    assert PartitionStore(store.path).next_row(b"") is None


def test_unknown_ids_are_not_looked_up_in_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, changes = PartitionStore(tmp_path / "x.db"), Changes()
    changes.commands["a"] = RememberedCommands(1, NOW, "orders-0-1")
    apply(store, changes)
    store.close()
    store = PartitionStore(tmp_path / "x.db")
    looked_for: list[bytes] = []
    get = store._db.get

    def seen(key: bytes) -> bytes | None:
        looked_for.append(key)
        return get(key)

    monkeypatch.setattr(store._db, "get", seen)

    assert store.commands.get("a") is not None
    assert [store.commands.get(f"b{number}") for number in range(1_000)] == [None] * 1_000
    assert len(looked_for) < 10


def test_a_seal_is_known_again_until_it_is_taken_back(tmp_path: Path) -> None:
    with closing(PartitionStore(tmp_path / "0.db")) as store:
        assert store.sealed is None
        store.replay([(keys.SEAL, b"delay-p24-delays-changelog")], 1, NOW)
        assert store.sealed == b"delay-p24-delays-changelog"
    with closing(PartitionStore(tmp_path / "0.db")) as store:
        assert store.sealed == b"delay-p24-delays-changelog"
        store.replay([(keys.SEAL, None)], 2, NOW)
        assert store.sealed is None
    with closing(PartitionStore(tmp_path / "0.db")) as store:
        assert store.sealed is None


def test_marks_are_given_as_the_changelog_has_them(tmp_path: Path) -> None:
    marks = [
        (keys.COMMANDS + b"a", commands_bytes(RememberedCommands(1, NOW, "delay-requests-0-1"))),
        (keys.DELIVERED + b"b", delivered_bytes(RememberedDelivery(1, NOW))),
        (keys.COLD + b"c", cold_mark_bytes(ColdMark("delay-requests-0-1", NOW, kept=True))),
    ]
    with closing(PartitionStore(tmp_path / "0.db")) as store:
        store.replay([*marks, (key(1), encode(entry("x")))], 4, NOW)
        assert list(store.marks()) == marks
