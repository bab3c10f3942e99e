"""A database that is damaged is never read as if it were whole, and dropped when it is opened next."""

import contextlib
import functools
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import rocksdict

from tables import Changes, PartitionStore, RememberedCommands, StoreCorrupt, StoreLocked, StoreUnusable, keys
from tables.database import Database
from tables.rocksdb_options import rocksdb_options
from tables.store import FORMAT
from tests.harness.damage import WAYS, damage
from tests.harness.fuzz import share
from tests.tables.rows import NOW, entry, fast_directory, image, key, put

ROWS = 12_000


def write(store: PartitionStore, begin: int, end: int) -> None:
    """Put rows of incompressible bytes in, a hundred per step."""
    chosen = random.Random(begin)  # noqa: S311 - it makes up values
    for first in range(begin, end, 100):
        changes = Changes()
        for number in range(first, first + 100):
            put(changes, key(number), entry(f"id-{number}", chosen.randbytes(300).hex()))
        store.apply(changes, store.offset + 101, 1, NOW)


def killed(path: Path, act: Callable[[PartitionStore], None]) -> Path:
    """Return the database at `path` as `kill -9` leaves it after `act`, which a process of its own does."""
    process = multiprocessing.get_context("spawn").Process(target=die_after, args=(path, act))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    return path


def die_after(path: Path, act: Callable[[PartitionStore], None]) -> None:
    """Do it and die, with the database still open."""
    store = PartitionStore(path)
    act(store)
    os._exit(0)


def write_all(store: PartitionStore) -> None:
    """Write ROWS rows to tables, and some more to the write-ahead log."""
    store._db._db.set_options({"disable_auto_compactions": "true"})  # or the largest table may be a merge cut off
    write(store, 0, ROWS)
    store._db._db.flush()
    write(store, ROWS, ROWS + 100)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with several tables, as `kill -9` leaves it."""
    return killed(tmp_path_factory.mktemp("whole") / "x.db", write_all)


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy of the database, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "x.db"))


def scratch(path: Path) -> None:
    """Overwrite some of a file's bytes, all over it but for the end, where a table has its index."""
    with path.open("r+b") as file:
        for place in range(0, path.stat().st_size * 3 // 4, 1_000):
            file.seek(place)
            file.write(b"rubbish")


def some(path: Path, pattern: str) -> Path:
    """Return one of a database's files."""
    return max(path.glob(pattern), key=lambda found: found.stat().st_size)


READS: dict[str, Callable[[PartitionStore], object]] = {
    "due rows": lambda store: store.due(NOW, b"", 1_000_000),
    "all rows": lambda store: list(store.rows()),
    "how many are due": lambda store: store.count(0, NOW, 1_000_000),
    "rows by id": lambda store: store.find_many([f"id-{number}" for number in range(ROWS)]),
    "a row": lambda store: [store.entry(key(number)) for number in range(ROWS)],
}


@pytest.mark.parametrize("reading", READS)
def test_a_damaged_file_is_an_error_and_the_database_is_not_trusted_again(path: Path, reading: str) -> None:
    for table in path.glob("*.sst"):
        with contextlib.suppress(FileNotFoundError):  # an open database removes merged files
            scratch(table)
    with pytest.raises(StoreCorrupt, match=r"Corruption.* It is only a copy of the changelog"):
        READS[reading](PartitionStore(path))

    with pytest.raises(StoreCorrupt, match="it was damaged when it was last used"):
        PartitionStore(path)


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
@pytest.mark.parametrize("how", [scratch, Path.unlink, lambda file: os.truncate(file, 5)], ids=["", "gone", "short"])
def test_damage_that_shows_at_once_is_no_crash_later(path: Path, pattern: str, how: Callable[[Path], None]) -> None:
    how(some(path, pattern))
    with pytest.raises(StoreCorrupt, match="is damaged"):
        list(PartitionStore(path).rows())


@pytest.mark.core
@pytest.mark.parametrize("flushed", [1, 2])
def test_a_step_that_is_missing_in_between_is_missed(tmp_path: Path, flushed: int) -> None:
    """A MANIFEST that has lost its end knows of fewer tables, and the write-ahead log goes on after them.

    One step suffices, even a database's first, and even one after which there are as many rows as before.
    """
    path = killed(tmp_path / "x.db", functools.partial(write_steps, flushed=flushed))
    manifest = some(path, "MANIFEST-*")
    os.truncate(manifest, manifest.stat().st_size - 60)

    with pytest.raises(StoreCorrupt, match=rf"1 of its last {flushed + 1} steps are missing"):
        PartitionStore(path)
    with pytest.raises(StoreCorrupt, match="it was damaged when it was last used"):
        PartitionStore(path)


def write_steps(store: PartitionStore, flushed: int) -> None:
    """Move a row with each step: this many rows to tables of their own, and one more to the write-ahead log."""
    there = key(0)
    for number in range(flushed + 1):
        changes = Changes()
        if number:
            moved = store.entry(there)
            assert moved is not None
            changes.removals[there] = moved
        there = key(number)
        put(changes, there, entry())
        store.apply(changes, store.offset + 3, 1, NOW)
        if number < flushed:
            store._db._db.flush()


@pytest.mark.parametrize("share", [0, 3, 10])
def test_a_write_ahead_log_that_has_lost_its_end_only_puts_the_database_back(path: Path, share: int) -> None:
    log = some(path, "*.log")
    os.truncate(log, log.stat().st_size * share // 10)
    store = PartitionStore(path)

    rows = ROWS + (100 if share == 10 else 0)
    assert (store.counts.total, store.offset) == (rows, rows // 100 * 101)
    assert len(list(store.rows())) == rows


@pytest.mark.parametrize("seed", range(share(40)))
def test_what_opens_after_any_damage_is_the_whole_image_of_a_prefix(seed: int) -> None:
    """Several lives, each ended by `kill -9` and damage: a trusted store holds all steps up to its offset."""
    chosen = random.Random(seed)  # noqa: S311 - it chooses damage
    place = fast_directory()
    try:
        images = {0: dict[bytes, bytes]()}
        store = PartitionStore(place / "0.db")
        for life in range(5):
            work(store, chosen, images)
            copy = place / f"{life + 1}.db"
            kill(store, copy)
            damage(copy, chosen.choice(sorted(WAYS)), chosen)
            try:
                store = PartitionStore(copy)
                found = image(store)
            except StoreCorrupt:
                shutil.rmtree(copy)
                images, store = {0: {}}, PartitionStore(copy)
                continue
            assert found == images[store.offset], f"life {life}"
            images = {offset: known for offset, known in images.items() if offset <= store.offset}
        store.close()
    finally:
        shutil.rmtree(place)


def work(store: PartitionStore, chosen: random.Random, images: dict[int, dict[bytes, bytes]]) -> None:
    """Apply steps that add, remove and remember, and record the database's content after each."""
    for _ in range(chosen.choice([3, 30, 100])):
        changes = Changes()
        rows = [row for row, _ in store.rows()]
        for row in chosen.sample(rows, min(len(rows), chosen.choice([0, 1, 3]))):
            removed = store.entry(row)
            assert removed is not None
            changes.removals[row] = removed
        for number in range(chosen.choice([0, 1, 3])):
            due = store.offset + number
            put(changes, key(due), entry(f"{due}", chosen.randbytes(chosen.choice([8, 2_000])).hex()))
        changes.commands[f"{store.offset}"] = RememberedCommands(NOW, NOW + 1, "delay-requests-0-0", None)
        store.apply(changes, store.offset + 5, 1, NOW)
        images[store.offset] = image(store)


def kill(store: PartitionStore, copy: Path) -> None:
    """Leave in `copy` what `kill -9` would have left of a database."""
    while True:
        try:
            shutil.copytree(store.path, copy)
            break
        except shutil.Error:  # a file may disappear, because RocksDB merges tables
            shutil.rmtree(copy)
    store.close()


def test_a_cut_off_flush_is_no_damage(path: Path) -> None:
    shutil.copy(some(path, "*.sst"), path / "000999.sst")

    assert PartitionStore(path).counts.total == ROWS + 100


def test_a_damaged_store_can_be_wiped(path: Path) -> None:
    store = PartitionStore(path)
    for table in path.glob("*.sst"):
        with contextlib.suppress(FileNotFoundError):  # an open database removes merged files
            scratch(table)
    with pytest.raises(StoreCorrupt):
        list(store.rows())
    store.wipe()

    assert PartitionStore(path).counts.total == 0


def test_the_lock_of_an_untrusted_database_is_released(path: Path) -> None:
    store = PartitionStore(path)
    batch = rocksdict.WriteBatch(raw_mode=True)
    batch.put(keys.META + b"format", keys.long_bytes(FORMAT + 1))
    store._db.write(batch)
    store.close()

    for _ in range(2):
        with pytest.raises(
            StoreCorrupt, match=rf"it has format {FORMAT + 1}, but this version supports at most {FORMAT}"
        ):
            PartitionStore(path)


def test_a_lock_is_free_again_when_damage_has_ended_a_look(path: Path) -> None:
    database = Database(path, rocksdb_options())
    database._db.compact_range(None, None)
    scratch(some(path, "*.sst"))
    try:
        list(database.items())
    except StoreCorrupt:  # the error keeps its cause
        database.close()
        shutil.rmtree(path)
        Database(path, rocksdb_options()).close()
    else:
        pytest.fail("the damage was not seen")


class Broken:
    """A RocksDB on a disk that has something to say."""

    def __init__(self, said: str) -> None:
        self._said = said

    def write(self, *_: object) -> None:
        raise Exception(self._said)  # noqa: TRY002 - as rocksdict does


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("IO error: No space left on device: While appending to file: /x/000004.log", StoreUnusable),
        ("IO error: While open a file for appending: /x/000009.sst: Read-only file system", StoreUnusable),
        ("Corruption: block checksum mismatch", StoreCorrupt),
        ("something else", Exception),
    ],
)
def test_a_disk_error_has_a_readable_message(tmp_path: Path, said: str, meant: type[Exception]) -> None:
    database = Database(tmp_path / "x.db", rocksdb_options())
    database.close()
    database._db = Broken(said)
    with pytest.raises(Exception, match=r"No space|Read-only|block|something") as raised:
        database.write(rocksdict.WriteBatch(raw_mode=True))

    assert type(raised.value) is meant


def test_a_disk_that_cannot_be_written_is_no_damage(tmp_path: Path) -> None:
    place = tmp_path / "a-file"
    place.touch()
    with pytest.raises(StoreUnusable, match=r"cannot be used .*Not a directory.*No data is lost"):
        PartitionStore(place / "x.db")


def test_a_store_in_use_is_no_damage(path: Path) -> None:
    store = PartitionStore(path)
    with pytest.raises(StoreLocked):
        PartitionStore(path)
    store.close()
