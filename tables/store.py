"""One partition of the table on disk: rows by due time, and what is kept beside them, in one RocksDB.

Everything is written in one WriteBatch a step together with the changelog offset it stands for, so that the database is
always the exact image of a prefix of the changelog.
"""

import contextlib
import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import rocksdict

from tables import keys
from tables.changes import (
    Changes,
    Position,
    RememberedDelivery,
    Told,
    decode_delivered,
    decode_position,
    decode_told,
    position_bytes,
)
from tables.counts import Counts
from tables.database import Database
from tables.entry import VERSION, Entry, decode
from tables.errors import StoreCorrupt, TableError, UnknownRecordKind
from tables.expiring_index import ExpiringIndex
from tables.foreign_writes import ForeignWrites
from tables.orders import Orders, decode_orders
from tables.read_ahead import ReadAhead

_META_FORMAT, _META_STEPS, _META_SLOT = keys.META + b"format", keys.META + b"steps", keys.META + b"#"
_META_OFFSET, _META_SEEN, _META_WRITER = keys.META + b"offset", keys.META + b"seen", keys.META + b"writer"

#: Each step leaves its number in one of so many slots, in turn: one that is missing leaves an older number there. What
#: can go missing in between lies right before the write-ahead logs, and those hold at most three write buffers; a step
#: takes some 350 bytes of them at least, so that is 36,000 steps.
_SLOTS = 1 << 16

#: The layout of the database, its keys and what they mean; a newer one is not read but restored. 2: what the cold tier
#: was told. 3: rows of version 2; written with the first of them.
FORMAT, _FORMAT_1 = 3, 2

#: A partition's share of memory: two write buffers of 4 MiB; the block cache is shared by all partitions of a worker.
_WRITE_BUFFER = 4 << 20
_BLOCK_CACHE = 32 << 20


class PartitionStore:
    """The rows of one partition, their index by id, counts, positions and what is remembered of ids.

    All reads show the last applied step. Not thread-safe: one event loop owns it.
    """

    _cache: rocksdict.Cache | None = None

    def __init__(self, path: Path) -> None:
        """Open the database at `path`, creating it if it is not there.

        Raises StoreLocked if another process has it open, StoreCorrupt if what is in it cannot be believed,
        StoreUnusable if the disk does not work.
        """
        self.path = path
        self._db = Database(path, self._options())
        try:
            self._read()
        except BaseException:
            self._db.close()
            raise

    def _read(self) -> None:
        """Read what is kept in memory too, and see that it fits together."""
        self.format = self._long(_META_FORMAT)
        if self.format > FORMAT:
            raise StoreCorrupt(str(self.path), f"it has format {self.format}, this version knows up to {FORMAT}")
        #: The oldest layout that holds what is in it.
        self._needed = FORMAT if self.format == FORMAT else _FORMAT_1
        self.counts = Counts(self._db)
        self.offset = self._long(_META_OFFSET)
        self.seen_ms = self._long(_META_SEEN)
        self.writer = self._long(_META_WRITER)
        self.positions: dict[str, Position] = {
            key[1:].decode(): decode_position(value) for key, value in self._scan(keys.POSITION)
        }
        self.origins: dict[bytes, int] = {key: int.from_bytes(value, "big") for key, value in self._scan(keys.ORIGIN)}
        self.orders: ExpiringIndex[Orders] = ExpiringIndex(self._db, keys.ORDERS, decode_orders)
        self.delivered: ExpiringIndex[RememberedDelivery] = ExpiringIndex(self._db, keys.DELIVERED, decode_delivered)
        self.told: ExpiringIndex[Told] = ExpiringIndex(self._db, keys.TOLD, decode_told)
        self.foreign = ForeignWrites(self._db)
        #: No row lies below this key: reads begin here, past the tombstones of what has been delivered.
        self.low = b""
        self._ahead = ReadAhead(self._db)
        #: Rows found in recovery whose id has a later row: what is left of them is replaced.
        self.clashes: set[bytes] = set()
        self._steps = self._long(_META_STEPS)
        if self._db.cut_off:
            self._assure_steps()

    def _assure_steps(self) -> None:
        """See that all of the last steps are there (30 ms): some may be missing in between."""
        there = {int.from_bytes(value, "big") for _, value in self._scan(_META_SLOT)}
        last = range(max(0, self._steps - _SLOTS) + 1, self._steps + 1)
        missing = sum(step not in there for step in last)
        if missing:
            self._db.condemn()
            raise StoreCorrupt(str(self.path), f"{missing:,} of its last {len(last):,} steps are missing")

    @classmethod
    def _options(cls) -> rocksdict.Options:
        if cls._cache is None:
            cls._cache = rocksdict.Cache(_BLOCK_CACHE)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_cache(cls._cache)
        blocks.set_bloom_filter(10, block_based=False)
        blocks.set_cache_index_and_filter_blocks(True)
        # In small parts: a filter or index for a whole file is more than a shard of the cache (1/64) holds, and would
        # be read anew by every look at it (75 µs instead of 5).
        blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        blocks.set_partition_filters(True)
        blocks.set_pin_top_level_index_and_filter(True)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)  # noqa: FBT003 - theirs
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_size(_WRITE_BUFFER)
        options.set_max_write_buffer_number(3)
        options.set_level_compaction_dynamic_level_bytes(True)
        options.set_max_open_files(256)
        options.set_max_file_opening_threads(1)  # each opening would start and end sixteen, a quarter of its time
        options.set_keep_log_file_num(2)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        return options

    def close(self) -> None:
        """Close the database; its lock is free when this returns."""
        self._db.close()

    def wipe(self) -> None:
        """Close the database and delete it from disk."""
        with contextlib.suppress(TableError):  # what is wrong with it goes with it
            self._db.close()
        shutil.rmtree(self.path)

    # reads -----------------------------------------------------------------------------------------------------------
    def _long(self, key: bytes) -> int:
        raw = self._db.get(key)
        return int.from_bytes(raw, "big") if raw is not None else 0

    def _scan(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._db.items(*keys.span(kind))

    def find(self, id_: str) -> bytes | None:
        """Return the key of the row with this id, or None."""
        return self._db.get(keys.ID + id_.encode())

    def find_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the keys of the rows with these ids, None where there is none, in one read."""
        return self._db.get_many([keys.ID + id_.encode() for id_ in ids])

    def entry(self, key: bytes) -> Entry | None:
        """Return the row at `key`, or None."""
        raw = self._db.get(key)
        return None if raw is None else decode(raw)

    def raw(self, key: bytes) -> bytes | None:
        """Return what is stored under any key, as the changelog has it, or None."""
        return self._db.get(key)

    def due(self, now_ms: int, start: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return up to `limit` rows from key `start` on, due at `now_ms`, in order of (due, arrival), undecoded.

        And, from the same look, a key before which no other row lies, None if none follows: its due time is when to
        look again, unless something changes.
        """
        return self._ahead.due(keys.due_bound(now_ms), max(start, self.low), limit)

    def next_row(self, start: bytes) -> bytes | None:
        """Return the first row key at or after `start`, or None."""
        return next(self._db.keys(max(start, self.low), keys.ROWS_END), None)

    def count(self, from_ms: int, to_ms: int, limit: int) -> int:
        """Count rows due in a span by looking at them, at most `limit`."""
        start = max(keys.row_key(from_ms, 0, 0), self.low)
        return sum(1 for _ in itertools.islice(self._db.keys(start, keys.due_bound(to_ms)), limit))

    def rows(self) -> Iterator[tuple[bytes, Entry]]:
        """Go through all rows in order. The database must not be closed meanwhile."""
        for key, raw in self._db.items(b"\x00", keys.ROWS_END):
            yield key, decode(raw)

    def raw_rows(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Go through rows from a key on, undecoded. The database must not be closed or written to meanwhile."""
        return self._db.items(max(start, self.low), keys.ROWS_END)

    @property
    def row_version(self) -> int:
        """The newest version of a row that there may be."""
        return VERSION if self._needed == FORMAT else 1

    # writes ----------------------------------------------------------------------------------------------------------
    def apply(self, changes: Changes, offset: int, writer: int, now_ms: int) -> None:
        """Apply one step whole: `offset` is the changelog's next offset after it, `now_ms` when that was its end."""
        self._ahead.forget(itertools.chain(changes.removals, changes.puts))
        if self._needed != FORMAT and any(raw[0] > 1 for _, raw in changes.puts.values()):
            self._needed = FORMAT
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, entry in changes.removals.items():
            batch.delete(key)
            self.counts.add(entry.to, key, -1)
            self._unindex(batch, key, entry)
        for key, (entry, raw) in changes.puts.items():
            batch.put(key, raw)
            if key in changes.fresh:
                if entry.url is None:  # a callback bears the id of a message that has ended
                    batch.put(keys.ID + entry.id.encode(), key)
                self.counts.add(entry.to, key, 1)
            elif entry.replaced:
                self._unindex(batch, key, entry)
        self.low = min((self.low, *changes.fresh))
        for topic, position in changes.positions.items():
            batch.put(keys.POSITION + topic.encode(), position_bytes(position))
            self.positions[topic] = position
        for key, number in changes.origins.items():
            batch.put(key, keys.long_bytes(number))
            self.origins[key] = number
        self.orders.write(batch, changes.orders)
        self.delivered.write(batch, changes.delivered)
        self.told.write(batch, changes.told)
        self._seal(batch, offset, writer, now_ms)

    def _unindex(self, batch: rocksdict.WriteBatch, key: bytes, entry: Entry) -> None:
        """Drop the id's index entry unless a later row of the same id has taken it."""
        if entry.url is not None:
            return
        index = keys.ID + entry.id.encode()
        shared = bool(entry.commands) or key in self.clashes
        if shared and self._db.get(index) != key:
            self.clashes.discard(key)
            return
        batch.delete(index)

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
        index: dict[bytes, bytes | None] = {}
        for key, value in last.items():
            if keys.is_row(key):
                self._replay_row(batch, key, value, before[key], index)
            else:
                self._replay_mark(batch, key, value)
        for id_key, row in index.items():
            if row is None:
                batch.delete(id_key)
            else:
                batch.put(id_key, row)
        self._seal(batch, offset, self.writer, now_ms)

    def _replay_row(
        self,
        batch: rocksdict.WriteBatch,
        key: bytes,
        value: bytes | None,
        before: bytes | None,
        index: dict[bytes, bytes | None],
    ) -> None:
        if value is not None:
            if value[0] > 1:
                self._needed = FORMAT
            entry = decode(value)
            batch.put(key, value)
            if before is None:
                self.counts.add(entry.to, key, 1)
                self.low = min(self.low, key)
            if entry.url is None:
                self._replay_id(key, entry, index)
        elif before is not None:
            entry = decode(before)
            batch.delete(key)
            self.clashes.discard(key)
            self.counts.add(entry.to, key, -1)
            id_key = keys.ID + entry.id.encode()
            if entry.url is None and (index[id_key] if id_key in index else self._db.get(id_key)) == key:
                index[id_key] = None

    def _replay_id(self, key: bytes, entry: Entry, index: dict[bytes, bytes | None]) -> None:
        id_key = keys.ID + entry.id.encode()
        other = index[id_key] if id_key in index else self._db.get(id_key)
        if not entry.replaced:
            if other is not None and other != key:
                self.clashes.add(other)
            index[id_key] = key
        elif other == key:
            index[id_key] = None

    def _replay_mark(self, batch: rocksdict.WriteBatch, key: bytes, value: bytes | None) -> None:
        kind = key[:1]
        if kind == keys.ORDERS:
            self.orders.replay(batch, key, value)
        elif kind == keys.DELIVERED:
            self.delivered.replay(batch, key, value)
        elif kind == keys.TOLD:
            self.told.replay(batch, key, value)
        elif kind not in (keys.ORIGIN, keys.POSITION, keys.WRITER):
            raise UnknownRecordKind(key)
        elif value is None:
            batch.delete(key)
        elif kind == keys.WRITER:
            self.writer = max(self.writer, int.from_bytes(value, "big"))
        else:
            batch.put(key, value)
            if kind == keys.POSITION:
                self.positions[key[1:].decode()] = decode_position(value)
            else:
                self.origins[key] = int.from_bytes(value, "big")

    def holds_version_1(self) -> None:
        """Note that no row of a newer version is left: from the next step on, workers before that can open it."""
        self._needed = _FORMAT_1

    def _seal(self, batch: rocksdict.WriteBatch, offset: int, writer: int, now_ms: int) -> None:
        """Write the batch with the changelog offset it stands for: one write, whole or not at all."""
        self.counts.write(batch)
        self.foreign.write(batch)
        if self.format != self._needed:
            batch.put(_META_FORMAT, keys.long_bytes(self._needed))
        batch.put(_META_OFFSET, keys.long_bytes(offset))
        step = self._steps + 1
        batch.put(_META_STEPS, keys.long_bytes(step))
        batch.put(_META_SLOT + (step % _SLOTS).to_bytes(2, "big"), keys.long_bytes(step))
        batch.put(_META_SEEN, keys.long_bytes(now_ms))
        batch.put(_META_WRITER, keys.long_bytes(writer))
        self._db.write(batch)
        self.format, self._steps = self._needed, step
        self.offset, self.seen_ms, self.writer = offset, now_ms, writer
