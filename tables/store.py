"""One partition of the table on disk: rows by due time, remembered ids, positions and counts in one RocksDB.

Each step is one WriteBatch, which contains the changelog offset after the step. So the database is always the exact
image of a prefix of the changelog.
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
from tables.shares import NamespaceRule, Shares
from tables.store_reads import ReadAhead, StoreReads

_META_FORMAT, _META_OFFSET = keys.META + b"format", keys.META + b"offset"
_META_SEEN, _META_WRITER = keys.META + b"seen", keys.META + b"writer"
_META_LOG = keys.META + b"log"
_META_ZONES = keys.META + b"zones"

#: The format of the database: the layout of its keys, plus the newest row version in it. A database of a newer format
#: is not read, but restored. Format 2 added marks of the cold tier.
_LAYOUTS = 1
FORMAT = VERSION + _LAYOUTS


class PartitionStore(StoreReads):
    """The rows of one partition, their index by id, counts, positions, and the marks of remembered ids.

    All reads show the last applied step. Not thread-safe: one event loop owns it.
    """

    def __init__(self, path: Path, namespace_rule: NamespaceRule | None = None) -> None:
        """Open the database at `path`, creating it if it is not there; with `whose`, usage is counted per namespace.

        Raises StoreLocked if another process has it open, StoreCorrupt if its content cannot be trusted,
        StoreUnusable if the disk does not work.
        """
        self.path, self._namespace_rule = path, namespace_rule
        self._db = Database(path, rocksdb_options())
        try:
            self._read()
        except BaseException:
            self._db.close()
            raise

    def _read(self) -> None:
        """Read the parts that are kept in memory, and check that they are consistent."""
        self.format = self._db.number(_META_FORMAT)
        if self.format > FORMAT:
            raise StoreCorrupt(
                str(self.path), f"it has format {self.format}, but this version supports at most {FORMAT}"
            )
        #: The newest row version that may be in the database; it determines the format.
        self.row_version = max(1, self.format - _LAYOUTS)
        self.counts = PendingCounts(self._db)
        self.offset = self._db.number(_META_OFFSET)
        #: The shares of namespaces or senders, None if they are not counted.
        self.shares = None if self._namespace_rule is None else Shares(self._db, self._namespace_rule, self.offset)
        self.seen_ms = self._db.number(_META_SEEN)
        self.writer = self._db.number(_META_WRITER)
        self.positions: dict[str, Position] = {
            key[1:].decode(): decode_position(value) for key, value in self._scan(keys.POSITION)
        }
        #: The changelog's record about its own beginning (tables/followed.py), None if it has never lost records.
        self.head = self.positions.pop("", None)
        raw = self._db.get(_META_LOG)
        #: The changelog that this database is a copy of.
        self.followed = Followed() if raw is None else decode_followed(raw)
        self._followed_written = self.followed
        #: The zone data by which all series are planned, b"" if another worker may have planned some.
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
        #: The seal of a changelog that is continued in another topic, where workers go on (docs/decisions/0021).
        self.sealed = self._db.get(keys.SEAL)
        #: No row lies below this key: reads begin here, after the tombstones of delivered messages.
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
        with contextlib.suppress(TableError):  # the errors of a database that is deleted do not matter
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

        A later row of the same id removes the earlier one, as in normal operation. Replaying records twice has no
        effect.
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
            elif entry.replaced and self.shares is not None:  # its content may have been removed
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
        """Become a copy of another changelog or of another range; `offset`, if given, is where reading goes on."""
        self.followed = followed
        self.apply(Changes(), self.offset if offset is None else offset, self.writer, self.seen_ms)

    def holds_version(self, version: int) -> None:
        """Record that no row newer than `version` is left, so that earlier workers can open the database."""
        self.row_version = version
        self.apply(Changes(), self.offset, self.writer, self.seen_ms)

    def plan_by(self, zones: bytes) -> None:
        """Record that all series are planned by this zone data; this holds until another worker writes."""
        self.zones = zones
        batch = rocksdict.WriteBatch(raw_mode=True)
        self._put_zones(batch, self.writer)
        self._seal(batch, self.offset, self.writer, self.seen_ms)

    def _put_zones(self, batch: rocksdict.WriteBatch, writer: int) -> None:
        batch.put(_META_ZONES, keys.long_bytes(writer) + self.zones)

    def _seal(self, batch: rocksdict.WriteBatch, offset: int, writer: int, now_ms: int) -> None:
        """Write the batch together with the changelog offset that it leads to, atomically."""
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
        if writer != self.writer and self.zones:  # this worker, restarted
            self._put_zones(batch, writer)
        self._db.write(batch)
        self._steps.last += 1
        self.format = needed
        self.offset, self.seen_ms, self.writer = offset, now_ms, writer
