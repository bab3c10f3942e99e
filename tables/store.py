"""One partition of the table on disk: rows by due time, and what is kept beside them, in one RocksDB.

Everything is written in one WriteBatch a step together with the changelog offset it stands for, so that the database is
always the exact image of a prefix of the changelog.
"""

import contextlib
import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path

import rocksdict

from tables import keys
from tables.changes import (
    Changes,
    ColdMark,
    Position,
    RememberedDelivery,
    decode_cold_mark,
    decode_delivered,
    decode_position,
    position_bytes,
)
from tables.commands import RememberedCommands, decode_commands
from tables.counts import PendingCounts
from tables.database import Database, StepNumbers
from tables.entry import VERSION, decode
from tables.errors import StoreCorrupt, TableError, UnknownRecordKind
from tables.expiring_index import ExpiringIndex
from tables.followed import Followed, decode_followed, followed_bytes
from tables.foreign_writes import ForeignWrites
from tables.rocksdb_options import rocksdb_options
from tables.row_writes import IdIndex, RowWrites
from tables.shares import Shares, Whose
from tables.store_reads import ReadAhead, StoreReads

_META_FORMAT, _META_OFFSET = keys.META + b"format", keys.META + b"offset"
_META_SEEN, _META_WRITER = keys.META + b"seen", keys.META + b"writer"
_META_LOG = keys.META + b"log"
_META_ZONES = keys.META + b"zones"

#: The layout of the database, its keys and what they mean; a newer one is not read but restored. 2: what the cold tier
#: was told. From 3 on: rows of the version that is so much less; written with the first of them.
_LAYOUTS = 1
FORMAT = VERSION + _LAYOUTS


class PartitionStore(StoreReads):
    """The rows of one partition, their index by id, counts, positions and what is remembered of ids.

    All reads show the last applied step. Not thread-safe: one event loop owns it.
    """

    def __init__(self, path: Path, whose: Whose | None = None) -> None:
        """Open the database at `path`, creating it if it is not there; what waits is counted by `whose` it is.

        Raises StoreLocked if another process has it open, StoreCorrupt if what is in it cannot be believed,
        StoreUnusable if the disk does not work.
        """
        self.path, self._whose = path, whose
        self._db = Database(path, rocksdb_options())
        try:
            self._read()
        except BaseException:
            self._db.close()
            raise

    def _read(self) -> None:
        """Read what is kept in memory too, and see that it fits together."""
        self.format = self._db.number(_META_FORMAT)
        if self.format > FORMAT:
            raise StoreCorrupt(
                str(self.path), f"it has format {self.format}, but this version supports at most {FORMAT}"
            )
        #: The newest version of a row that there may be: the layout that is needed follows from it.
        self.row_version = max(1, self.format - _LAYOUTS)
        self.counts = PendingCounts(self._db)
        self.offset = self._db.number(_META_OFFSET)
        #: What waits per namespace, None if nobody wants to know.
        self.shares = None if self._whose is None else Shares(self._db, self._whose, self.offset)
        self.seen_ms = self._db.number(_META_SEEN)
        self.writer = self._db.number(_META_WRITER)
        self.positions: dict[str, Position] = {
            key[1:].decode(): decode_position(value) for key, value in self._scan(keys.POSITION)
        }
        #: What the changelog says of its own beginning (tables/followed.py), None if it has never lost anything.
        self.head = self.positions.pop("", None)
        raw = self._db.get(_META_LOG)
        #: Which changelog this database is a copy of.
        self.followed = Followed() if raw is None else decode_followed(raw)
        self._followed_written = self.followed
        #: By which zone data all series are planned, b"" if it is not known: then another worker may have written some.
        self.zones = b""
        raw = self._db.get(_META_ZONES)
        if raw is not None and raw[:8] == keys.long_bytes(self.writer):
            self.zones = raw[8:]
        self.origins: dict[bytes, int] = {key: int.from_bytes(value, "big") for key, value in self._scan(keys.ORIGIN)}
        counted = (lambda _id, _number: None) if self.shares is None else self.shares.remember
        self.commands: ExpiringIndex[RememberedCommands] = ExpiringIndex(
            self._db, keys.COMMANDS, decode_commands, counted
        )
        self.delivered: ExpiringIndex[RememberedDelivery] = ExpiringIndex(
            self._db, keys.DELIVERED, decode_delivered, counted
        )
        self.cold_marks: ExpiringIndex[ColdMark] = ExpiringIndex(self._db, keys.COLD, decode_cold_mark, counted)
        self.foreign = ForeignWrites(self._db)
        #: Where the changelog goes on, if that is not here: nobody works on it any more (docs/decisions/0021).
        self.sealed = self._db.get(keys.SEAL)
        #: No row lies below this key: reads begin here, past the tombstones of what has been delivered.
        self._low = b""
        self._ahead = ReadAhead(self._db)
        self._ids = IdIndex(self._db)
        self._rows = RowWrites(self._ids, self.counts)
        self._steps = StepNumbers(self._db)
        if self._db.cut_off:
            self._steps.assure()

    def close(self) -> None:
        """Close the database; its lock is free when this returns."""
        self._db.close()

    def wipe(self) -> None:
        """Close the database and delete it from disk."""
        with contextlib.suppress(TableError):  # what is wrong with it goes with it
            self._db.close()
        shutil.rmtree(self.path)

    # writes ----------------------------------------------------------------------------------------------------------
    def apply(self, changes: Changes, offset: int, writer: int, now_ms: int) -> None:
        """Apply one step whole: `offset` is the changelog's next offset after it, `now_ms` when that was its end."""
        for changed in (changes.removals, changes.gone, changes.puts, changes.plain):
            self._ahead.forget(changed)
        if self.row_version < VERSION:
            raws = itertools.chain((raw for _, raw in changes.puts.values()), changes.plain.values())
            self.row_version = max((self.row_version, *(raw[0] for raw in raws)))
        batch = rocksdict.WriteBatch(raw_mode=True)
        self._rows.write(batch, changes)
        self._low = min((self._low, *changes.added))
        if self.shares is not None:
            self.shares.apply(changes)
        for topic, position in changes.positions.items():
            batch.put(keys.POSITION + topic.encode(), position_bytes(position))
            self._note_position(topic, position)
        for key, number in changes.origins.items():
            batch.put(key, keys.long_bytes(number))
            self.origins[key] = number
        if changes.commands:
            self.commands.write(batch, changes.commands)
        if changes.delivered:
            self.delivered.write(batch, changes.delivered)
        if changes.cold_marks:
            self.cold_marks.write(batch, changes.cold_marks)
        self._seal(batch, offset, writer, now_ms)

    def replay(self, records: Iterable[tuple[bytes, bytes | None]], offset: int, now_ms: int) -> None:
        """Apply changelog records in their order; `offset` is the next one after them.

        A later row of the same id removes the earlier, as in live work. Applying records twice changes nothing.
        """
        last: dict[bytes, bytes | None] = {}
        for key, value in records:
            last.pop(key, None)  # keep the order of the last writes
            last[key] = value
        batch = rocksdict.WriteBatch(raw_mode=True)
        rows = [key for key in last if keys.is_row(key)]
        self._ahead.forget(rows)
        before = dict(zip(rows, self._db.get_many(rows), strict=True)) if rows else {}
        for key, value in last.items():
            if keys.is_row(key):
                self._replay_row(batch, key, value, before[key])
            else:
                self._replay_mark(batch, key, value)
        self._ids.write_replayed(batch)
        self._seal(batch, offset, self.writer, now_ms)

    def _replay_row(self, batch: rocksdict.WriteBatch, key: bytes, value: bytes | None, before: bytes | None) -> None:
        if value is not None:
            entry = decode(value)
            self.row_version = max(self.row_version, value[0])
            batch.put(key, value)
            if before is None:
                self.counts.add(entry.to, key, 1)
                self._low = min(self._low, key)
                if self.shares is not None:
                    self.shares.add(key, entry, 1)
            elif entry.replaced and self.shares is not None:  # it may be emptied
                self.shares.add(key, decode(before), -1)
                self.shares.add(key, entry, 1)
            self._ids.replay(key, entry)
        elif before is not None:
            entry = decode(before)
            batch.delete(key)
            self.counts.add(entry.to, key, -1)
            if self.shares is not None:
                self.shares.add(key, entry, -1)
            self._ids.replay_removal(key, entry)

    def _replay_mark(self, batch: rocksdict.WriteBatch, key: bytes, value: bytes | None) -> None:
        kind = key[:1]
        if kind == keys.COMMANDS:
            self.commands.replay(batch, key, value)
        elif kind == keys.DELIVERED:
            self.delivered.replay(batch, key, value)
        elif kind == keys.COLD:
            self.cold_marks.replay(batch, key, value)
        elif kind not in (keys.ORIGIN, keys.POSITION, keys.SEAL, keys.WRITER):
            raise UnknownRecordKind(key)
        elif kind == keys.SEAL:
            self._replay_seal(batch, value)
        elif value is None:
            batch.delete(key)
        elif kind == keys.WRITER:
            writer = int.from_bytes(value, "big")
            if writer > self.writer:
                self.writer, self.zones = writer, b""
        else:
            batch.put(key, value)
            if kind == keys.POSITION:
                self._note_position(key[1:].decode(), decode_position(value))
            else:
                self.origins[key] = int.from_bytes(value, "big")

    def _note_position(self, topic: str, position: Position) -> None:
        if topic:
            self.positions[topic] = position
        else:
            self.head = position

    def _replay_seal(self, batch: rocksdict.WriteBatch, value: bytes | None) -> None:
        if value is None:
            batch.delete(keys.SEAL)
        else:
            batch.put(keys.SEAL, value)
        self.sealed = value

    def follow(self, followed: Followed, offset: int | None = None) -> None:
        """Be a copy of another changelog, or of another range of it; `offset` is where it goes on, if that changes."""
        self.followed = followed
        self.apply(Changes(), self.offset if offset is None else offset, self.writer, self.seen_ms)

    def holds_version(self, version: int) -> None:
        """Write down that no row of a newer version is left: workers before that can open it from now on."""
        self.row_version = version
        self.apply(Changes(), self.offset, self.writer, self.seen_ms)

    def plan_by(self, zones: bytes) -> None:
        """Write down that all series are planned by this zone data, as long as no other worker writes."""
        self.zones = zones
        batch = rocksdict.WriteBatch(raw_mode=True)
        self._put_zones(batch, self.writer)
        self._seal(batch, self.offset, self.writer, self.seen_ms)

    def _put_zones(self, batch: rocksdict.WriteBatch, writer: int) -> None:
        batch.put(_META_ZONES, keys.long_bytes(writer) + self.zones)

    def _seal(self, batch: rocksdict.WriteBatch, offset: int, writer: int, now_ms: int) -> None:
        """Write the batch with the changelog offset it stands for: one write, whole or not at all."""
        self.counts.write(batch)
        if self.shares is not None:
            self.shares.write(batch, offset)
        if self.foreign.keys or self.foreign.written:
            self.foreign.write(batch)
        needed = self.row_version + _LAYOUTS
        if self.format != needed:
            batch.put(_META_FORMAT, keys.long_bytes(needed))
        batch.put(_META_OFFSET, keys.long_bytes(offset))
        if self.followed is not self._followed_written:
            batch.put(_META_LOG, followed_bytes(self.followed))
            self._followed_written = self.followed
        self._steps.write(batch)
        batch.put(_META_SEEN, keys.long_bytes(now_ms))
        batch.put(_META_WRITER, keys.long_bytes(writer))
        if writer != self.writer and self.zones:  # this worker again, in another life
            self._put_zones(batch, writer)
        self._db.write(batch)
        self._steps.last += 1
        self.format = needed
        self.offset, self.seen_ms, self.writer = offset, now_ms, writer
