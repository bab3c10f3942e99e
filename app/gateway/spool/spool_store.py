"""The spool on disk: records by partition, in order. All methods wait for the disk, and run on its thread."""

import contextlib
import errno
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import rocksdict

from app.base.errors import DataDirectoryTaken, DataDirectoryUnusable
from app.base.process.datadir import claim
from app.base.process.disk_room import can_reopen
from app.gateway.spool.errors import SpoolTaken, SpoolUnusable
from app.serve.messages.acceptance import Submission
from app.settings.gateway import SPOOL
from tables.database import Database
from tables.errors import StoreCorrupt, StoreLocked, StoreUnusable
from tables.rocksdb_options import common_options

#: A topic and a partition number.
Place = tuple[str, int]

_FORMAT: Final = b"1"
_META, _RECORDS, _END = b"\x00format", b"r", b"s"
_TAIL: Final = struct.Struct(">IQ")
#: Returns a record as it is stored.
encoded: Final = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Submission).decode


class SpooledRecord(NamedTuple):
    """A record in the spool: its number, its bytes on disk, and its submission."""

    number: int
    size: int
    submission: Submission


class Shelf(NamedTuple):
    """The spooled records of one place: their count, their bytes, and the first one's number."""

    records: int
    size: int
    first: int


class SpoolStore:
    """Records in a RocksDB database, each under its place and its number.

    Numbers are the time of receipt in microseconds, made unique, so they give the age of a record.
    """

    def __init__(self, path: Path) -> None:
        """Open the spool, and claim its directory for this process. Raises SpoolTaken or SpoolUnusable."""
        self._path = path
        with self._named_errors():
            self._lock = claim(path)
        try:
            self._database = self._open()
        except BaseException:
            self._lock.close()
            raise
        #: Whether a write has failed, and the keys of records that may still be on disk but must not be sent, because
        #: they were not accepted, or Kafka has them.
        self._broken, self._gone = False, set[bytes]()
        #: The largest number of a record.
        self.last = 0

    def _open(self) -> Database:
        with self._named_errors():
            database = Database(self._path / SPOOL, _options())
            form = database.get(_META)
        if form in (None, _FORMAT):
            return database
        database.close()
        raise SpoolUnusable(self._path, f"its format is {form!r}, from another version; this version reads {_FORMAT!r}")

    def shelves(self) -> dict[Place, Shelf]:
        """Return the shelf of each place."""
        shelves: dict[Place, Shelf] = {}
        with self._named_errors():
            for key, value in self._database.items(_RECORDS, _END):
                place, number = _parts(key)
                self.last = max(self.last, number)
                records, size, first = shelves.get(place, (0, 0, number))
                shelves[place] = Shelf(records + 1, size + len(key) + len(value), first)
        return shelves

    def sizes(self, sender_of: Callable[[Submission], str]) -> Counter[str]:
        """Return the bytes of all records by sender."""
        sizes = Counter[str]()
        with self._named_errors():
            for key, value in self._database.items(_RECORDS, _END):
                sizes[sender_of(_decode(value))] += len(key) + len(value)
        return sizes

    def add(self, records: Sequence[tuple[Place, int, bytes]]) -> None:
        """Write encoded records; when this returns all are on disk, or it raises OSError and none counts."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.put(_META, _FORMAT)
        for place, number, value in records:
            batch.put(key_of(place, number), value)
        try:
            self._mend()
            self._database.write(batch)
            self._database.sync()
        except (StoreUnusable, StoreCorrupt) as error:
            self._broken = True
            self._gone.update(key_of(place, number) for place, number, _ in records)
            raise OSError(str(error.__cause__ or error)) from error

    def _mend(self) -> None:
        """Open the database again after a failed write, and delete the records in `_gone`.

        RocksDB refuses all writes after a failed one. Raises OSError or StoreUnusable if the disk still fails: the
        open database stays, and can be read.
        """
        if not self._broken:
            return
        if not can_reopen(self._path / SPOOL):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._close()
        self._database = Database(self._path / SPOOL, _options())
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in self._gone:
            batch.delete(key)
        self._database.write(batch)
        self._database.sync()
        self._broken, self._gone = False, set()

    def read(self, place: Place, start: int, count: int, size: int) -> list[SpooledRecord]:
        """Return records of a place from number `start` on: at most `count`, and `size` bytes, but at least one."""
        records, total = list[SpooledRecord](), 0
        begin, end = key_of(place, start), key_of(place, (1 << 64) - 1)
        with self._named_errors():
            for key, value in self._database.items(begin, end):
                if key in self._gone:
                    continue
                total += len(key) + len(value)
                if records and (total > size or len(records) == count):
                    break
                records.append(SpooledRecord(_parts(key)[1], len(key) + len(value), _decode(value)))
        return records

    def remove(self, place: Place, numbers: Sequence[int]) -> int | None:
        """Remove the first records of a place; return the number of the first that is left.

        If the disk fails they are only skipped, until it works again, because records in Kafka must not be sent again.
        """
        batch, keys = rocksdict.WriteBatch(raw_mode=True), [key_of(place, number) for number in numbers]
        for key in keys:
            batch.delete(key)
        with self._named_errors():
            try:
                if not self._broken:
                    self._database.write(batch)
            except StoreUnusable:
                self._broken = True
            if self._broken:
                self._gone.update(keys)
            end = key_of(place, (1 << 64) - 1)
            following: Iterator[bytes] = self._database.keys(key_of(place, numbers[-1] + 1), end)
            first = next((key for key in following if key not in self._gone), None)
            del following  # otherwise it would keep the database open
        return None if first is None else _parts(first)[1]

    def shrink(self) -> None:
        """Free the disk space of an empty spool. Raises SpoolUnusable."""
        with self._named_errors():
            if any(key not in self._gone for key, _ in self._database.items(_RECORDS, _END)):
                return
            self._close()
            rocksdict.Rdict.destroy(str(self._path / SPOOL), _options())
            self._database = Database(self._path / SPOOL, _options())
            self._broken, self._gone = False, set()

    def close(self) -> None:
        """Close the database, and free the directory for another process."""
        with contextlib.suppress(StoreUnusable, StoreCorrupt):
            self._database.sync()
        self._close()
        self._lock.close()

    def _close(self) -> None:
        with contextlib.suppress(StoreUnusable, StoreCorrupt, rocksdict.DbClosedError):
            self._database.close()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (DataDirectoryTaken, StoreLocked) as error:
            raise SpoolTaken(self._path) from error
        except (DataDirectoryUnusable, StoreUnusable, StoreCorrupt, msgspec.DecodeError) as error:
            raise SpoolUnusable(self._path, error.__cause__ or error) from error
        except rocksdict.DbClosedError as error:  # a write has failed, and the database could not be opened again
            raise SpoolUnusable(self._path, error) from error


def key_of(place: Place, number: int) -> bytes:
    """Return the key of a record: keys of a place sort by number."""
    topic, partition = place
    return b"%b%b\x00%b" % (_RECORDS, topic.encode(), _TAIL.pack(partition, number))


def _parts(key: bytes) -> tuple[Place, int]:
    partition, number = _TAIL.unpack(key[-_TAIL.size :])
    return (key[len(_RECORDS) : -_TAIL.size - 1].decode(), partition), number


def _options() -> rocksdict.Options:
    options = common_options(16 << 20, open_files=256)
    # Only the last write can be cut off by a crash, and it was not accepted; any other gap is damage.
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    return options
