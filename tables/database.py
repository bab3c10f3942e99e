"""A RocksDB database for the store, which never mistakes damage for the end of its data.

The iterators of rocksdict end silently at a block that cannot be read, and RocksDB opens a database whose MANIFEST
or an older WAL has lost its end as if no data were missing. This module detects both; steps are numbered for that.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import rocksdict

from tables.errors import StoreCorrupt, StoreLocked, StoreUnusable
from tables.keys import META, long_bytes, span

#: RocksDB's messages about a lock held by this process or another (env/fs_posix.cc, LockFile). The word "lock" alone
#: is not enough, because it occurs in paths and in errors about blocks.
_LOCKED = re.compile("lock hold by current process|While lock file")
#: Errors of the disk, from RocksDB or rocksdict, as opposed to damaged data; a missing file counts as damage.
_DISK, _MISSING = re.compile(r"^IO error|\(os error \d+\)"), "No such file or directory"
#: An empty file of this name in a database's directory marks a database that was found damaged while in use.
_DAMAGED = "damaged"

_META_STEPS, _META_SLOT = META + b"steps", META + b"#"
#: The number of slots. Each step writes its number into the next slot, so a missing step leaves an older number in it.
#: Steps can go missing only right before the write-ahead logs. Those hold at most three write buffers, and a step takes
#: at least some 350 bytes of a buffer, so this concerns at most the last 36,000 steps.
_SLOTS = 1 << 16


class Database:
    """An open RocksDB.

    Every read and write raises StoreCorrupt (and marks the database as damaged) if it meets damage, and StoreUnusable
    if the disk fails.
    """

    def __init__(self, path: Path, options: rocksdict.Options) -> None:
        """Open the database at `path`, creating it if it is not there.

        Raises StoreLocked if another process has it open, StoreCorrupt if it is damaged or has been found so before,
        StoreUnusable if the disk is full, read-only or broken.
        """
        self.path = path
        if (path / _DAMAGED).exists():
            raise StoreCorrupt(str(path), "it was damaged when it was last used")
        tables, logs = {table.name for table in path.glob("*.sst")}, len(list(path.glob("*.log")))
        try:
            self._db = rocksdict.Rdict(str(path), options)
        except Exception as error:
            text = str(error)
            if _LOCKED.search(text):
                raise StoreLocked(str(path)) from error
            if _DISK.search(text) and _MISSING not in text:
                raise StoreUnusable(str(path), error) from error
            raise StoreCorrupt(str(path), error) from error
        self._writes = write_options()
        live = {Path(file["name"]).name for file in self._db.live_files()} if tables else tables
        #: Whether there are traces of an interrupted flush or compaction. Usually they are harmless, but a MANIFEST or
        #: WAL that has lost its end leaves the same traces, and then the steps between the two are missing.
        self.cut_off = logs > 1 or not tables <= live

    def close(self) -> None:
        """Close the database; its lock is free when this returns."""
        try:
            self._db.close()
        except Exception as error:  # noqa: BLE001 - theirs
            self._trouble(error)

    def get(self, key: bytes) -> bytes | None:
        """Return the value stored under a key, or None."""
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:  # noqa: BLE001 - theirs
            self._trouble(error)
        return value

    def number(self, key: bytes) -> int:
        """Return the number stored under a key, 0 if there is none."""
        raw = self.get(key)
        return int.from_bytes(raw, "big") if raw is not None else 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value stored under each key, or None for a missing key, in one read."""
        try:
            values: list[bytes | None] = self._db.get(list(keys))
        except Exception as error:  # noqa: BLE001 - theirs
            self._trouble(error)
        return values

    def items(self, start: bytes = b"", end: bytes = b"\xff") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys from `start` to before `end` and their values, in order."""
        options, key = _before(end), None
        for item in self._db.items(from_key=start, read_opt=options):
            key = item[0]
            yield item
        self._assure_end(start if key is None else key + b"\x00", options)

    def scan(self, start: bytes, end: bytes) -> "DatabaseScan":
        """Return a scan of the same items in bulk, for one pass; its blocks do not stay in the block cache."""
        options = _before(end)
        options.fill_cache(False)  # noqa: FBT003 - theirs
        return DatabaseScan(
            self._db.items(from_key=start, read_opt=options), start, lambda at: self._assure_end(at, options)
        )

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """Iterate over the keys from `start` to before `end`, in order."""
        options, key = _before(end), None
        for key in self._db.keys(from_key=start, read_opt=options):
            yield key
        self._assure_end(start if key is None else key + b"\x00", options)

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Write a batch atomically. Raises StoreUnusable if the disk fails, StoreCorrupt if the database is damaged."""
        try:
            self._db.write(batch, self._writes)
        except Exception as error:  # noqa: BLE001 - theirs
            self._trouble(error)

    def sync(self) -> None:
        """Return when all previous writes are on disk; this is the only method that lets other threads run."""
        try:
            self._db.flush_wal(True)  # noqa: FBT003 - theirs
        except Exception as error:  # noqa: BLE001 - theirs
            self._trouble(error)

    def _assure_end(self, start: bytes, options: rocksdict.ReadOptions) -> None:
        """Raise an error if an iterator that ended at `start` has stopped because of damage (takes 4 µs)."""
        look = self._db.iter(options)
        try:
            look.seek(start)
            look.status()
        except Exception as error:  # noqa: BLE001 - theirs
            del look  # the traceback would keep it, and it the database open and locked
            self._trouble(error)

    def _trouble(self, error: Exception) -> NoReturn:
        """Raise StoreUnusable or StoreCorrupt for a RocksDB error that means it, or else the error itself."""
        text = str(error)
        if _DISK.search(text):
            raise StoreUnusable(str(self.path), error) from error
        if text.startswith("Corruption"):
            self.condemn()
            raise StoreCorrupt(str(self.path), error) from error
        raise error

    def condemn(self) -> None:
        """Mark the database as damaged, so that it is not trusted when it is next opened."""
        with contextlib.suppress(OSError):  # the damage is found again
            (self.path / _DAMAGED).touch()


class DatabaseScan:
    """Keys and their values in order, read in bulk, so that Python does not handle them one by one."""

    def __init__(self, items: Iterator[tuple[bytes, bytes]], start: bytes, assure_end: Callable[[bytes], None]) -> None:
        """Begin at `start`; `assure_end` is called with the key where the items end, and raises if that is damage."""
        self._items, self._next, self._assure_end = items, start, assure_end
        self._ended = False

    def take(self, number: int) -> list[tuple[bytes, bytes]]:
        """Return the next `number` items, or fewer at the end."""
        items = [] if self._ended else list(islice(self._items, number))
        if items:
            self._next = items[-1][0] + b"\x00"
        if len(items) < number and not self._ended:
            self._assure_end(self._next)
            self._ended = True
        return items


class StepNumbers:
    """The number of a database's last step, written with each step."""

    def __init__(self, db: Database) -> None:
        """Read the last step's number from the database."""
        self._db = db
        #: The number of the last step that was written.
        self.last = db.number(_META_STEPS)

    def assure(self) -> None:
        """Check that none of the last steps is missing (takes 30 ms).

        Raises StoreCorrupt if one is missing.
        """
        there = {int.from_bytes(value, "big") for _, value in self._db.items(*span(_META_SLOT))}
        last = range(max(0, self.last - _SLOTS) + 1, self.last + 1)
        missing = sum(step not in there for step in last)
        if missing:
            self._db.condemn()
            raise StoreCorrupt(str(self._db.path), f"{missing:,} of its last {len(last):,} steps are missing")

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Put the next step's number into the step's batch."""
        step = self.last + 1
        number = long_bytes(step)
        batch.put(_META_STEPS, number)
        batch.put(_META_SLOT + (step % _SLOTS).to_bytes(2, "big"), number)


def write_options() -> rocksdict.WriteOptions:
    """Return the options of all writes. With them, puts in key order are a third faster (tables/rocksdb_options.py)."""
    options = rocksdict.WriteOptions()
    options.memtable_insert_hint_per_batch = True
    return options


def _before(end: bytes) -> rocksdict.ReadOptions:
    """Return options for an iterator that ends before `end`. Keep them alive: RocksDB holds a pointer to them."""
    options: Any = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(end)
    return options
