"""Disks that survive their process: a sorted store in memory where tables/ has RocksDB, which keeps its history."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Any

Write = tuple[bytes, bytes | None]


class ReadOptions:
    """Where an iterator ends."""

    def __init__(self) -> None:
        """Begin without a bound."""
        self.upper: bytes | None = None

    def set_iterate_upper_bound(self, key: bytes) -> None:
        self.upper = key

    def fill_cache(self, _: bool) -> None:  # noqa: FBT001 - as RocksDB's
        pass


class WriteBatch:
    """Writes that happen whole or not at all."""

    def __init__(self, *, raw_mode: bool) -> None:
        """Begin empty."""
        assert raw_mode
        self.writes: list[Write] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.writes.append((key, value))

    def delete(self, key: bytes) -> None:
        self.writes.append((key, None))


class WriteOptions:
    """Accepted and ignored."""


class Database:
    """The contents of one path on a disk."""

    def __init__(self) -> None:
        """Begin empty."""
        self.values: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []
        self.history: list[list[Write]] = []
        self.open = False

    def apply(self, writes: list[Write]) -> None:
        self.history.append(writes)
        for key, value in writes:
            if value is None:
                if self.values.pop(key, None) is not None:
                    del self.keys[bisect_left(self.keys, key)]
            else:
                if key not in self.values:
                    insort(self.keys, key)
                self.values[key] = value

    def rewound(self, writes: int) -> "Database":
        """Return the database as it was after its first `writes` batches."""
        then = Database()
        for batch in self.history[:writes]:
            then.apply(batch)
        return then


class Look:
    """An iterator at its end."""

    def seek(self, _: bytes) -> None:
        """Accept and ignore the key."""

    def status(self) -> None:
        """Report no damage: there is none here."""


class Rdict:
    """An open database."""

    def __init__(self, disks: "Disks", path: str) -> None:
        """Open it, making it if it is not there."""
        self._disks, self._path = disks, path
        self._database = disks.databases.setdefault(path, Database())
        if self._database.open:
            raise OSError(f"While lock file: {path}")
        self._database.open = True

    def close(self) -> None:
        self._database.open = False

    def get(self, key: bytes | Sequence[bytes]) -> Any:
        values = self._database.values
        return values.get(key) if isinstance(key, bytes) else [values.get(one) for one in key]

    def items(self, *, from_key: bytes = b"", read_opt: ReadOptions | None = None) -> Iterator[tuple[bytes, bytes]]:
        values = self._database.values
        return iter([(key, values[key]) for key in self._span(from_key, read_opt)])

    def keys(self, *, from_key: bytes, read_opt: ReadOptions | None = None) -> Iterator[bytes]:
        return iter(self._span(from_key, read_opt))

    def iter(self, _: ReadOptions) -> Look:
        return Look()

    def _span(self, from_key: bytes, options: ReadOptions | None) -> list[bytes]:
        found = self._database.keys
        upper = options.upper if options is not None else None
        end = len(found) if upper is None else bisect_left(found, upper)
        return found[bisect_left(found, from_key) : end]

    def write(self, batch: WriteBatch, _: WriteOptions) -> None:
        self._database.apply(batch.writes)


class Disks:
    """All disks there are; it stands where the modules of tables/ have `rocksdict`, and `shutil` for wiping."""

    ReadOptions, WriteBatch, WriteOptions = ReadOptions, WriteBatch, WriteOptions

    def __init__(self) -> None:
        """Begin without databases."""
        self.databases: dict[str, Database] = {}

    def Rdict(self, path: str, _: object) -> Rdict:  # noqa: N802 - theirs
        return Rdict(self, path)

    def rmtree(self, path: object) -> None:
        del self.databases[str(path)]

    # what happens to disks -------------------------------------------------------------------------------------------
    def unlock(self, directory: str) -> None:
        """Release the databases that a dead process had open."""
        for path in self._under(directory):
            self.databases[path].open = False

    def wipe(self, directory: str) -> None:
        for path in self._under(directory):
            del self.databases[path]

    def lose(self, directory: str, writes: int) -> None:
        """Lose the last writes: what RocksDB has not synced when the power fails."""
        for path in self._under(directory):
            database = self.databases[path]
            self.databases[path] = database.rewound(max(0, len(database.history) - writes))

    def rewind(self, directory: str, share: float) -> None:
        """Bring back an old copy: of each database, this share of its history."""
        for path in self._under(directory):
            database = self.databases[path]
            self.databases[path] = database.rewound(int(len(database.history) * share))

    def _under(self, directory: str) -> list[str]:
        return [path for path in self.databases if path.startswith(f"{directory}/")]
