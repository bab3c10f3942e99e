"""The writes of a step's rows, with the index of their ids and their counts.

Plain rows are written in the order of their keys, then their ids in order: RocksDB searches for the place of the next
key from the place of the last one.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import rocksdict

from tables import keys, places
from tables.changes import Changes
from tables.counts import PendingCounts
from tables.database import Database
from tables.entry import Entry, entry_of

#: Exhausts an iterator in C: a loop in Python would take as long as the work itself.
exhaust: Final = deque[object](maxlen=0).extend


class IdIndex:
    """The ids of one partition's messages, and the keys of their rows.

    Failure callbacks are left out: each has the id of a message that has ended.
    """

    def __init__(self, db: Database) -> None:
        """Begin with no clashes in the index of the database `db`."""
        self._db = db
        #: Rows that a recovery found to have an id that a later row also has: they count as replaced.
        self.clashes: set[bytes] = set()
        #: The replayed changes to the index, until they are written; None removes an id.
        self._replayed: dict[bytes, bytes | None] = {}

    def drop(self, batch: rocksdict.WriteBatch, key: bytes, entry: Entry) -> None:
        """Remove a row's id from the index, unless a later row has the same id."""
        if entry.url is not None:
            return
        id_key = keys.ID + entry.id.encode()
        shared = bool(entry.commands) or key in self.clashes
        if shared and self._db.get(id_key) != key:
            self.clashes.discard(key)
            return
        batch.delete(id_key)

    def replay(self, key: bytes, entry: Entry) -> None:
        """Index a row from the changelog: it takes its id from an earlier row, unless it is replaced itself."""
        if entry.url is not None:
            return
        id_key = keys.ID + entry.id.encode()
        other = self._at(id_key)
        if not entry.replaced:
            if other is not None and other != key:
                self.clashes.add(other)
            self._replayed[id_key] = key
        elif other == key:
            self._replayed[id_key] = None

    def replay_removal(self, key: bytes, entry: Entry) -> None:
        """Remove the id of a row that the changelog has removed, unless another row has it."""
        self.clashes.discard(key)
        id_key = keys.ID + entry.id.encode()
        if entry.url is None and self._at(id_key) == key:
            self._replayed[id_key] = None

    def _at(self, id_key: bytes) -> bytes | None:
        return self._replayed[id_key] if id_key in self._replayed else self._db.get(id_key)

    def write_replayed(self, batch: rocksdict.WriteBatch) -> None:
        """Put the replayed changes to the index into the batch."""
        replayed, self._replayed = self._replayed, {}
        for id_key, row in replayed.items():
            if row is None:
                batch.delete(id_key)
            else:
                batch.put(id_key, row)


class RowWrites:
    """Puts a step's changes to rows into its batch, and updates the id index and the counts."""

    def __init__(self, ids: IdIndex, counts: PendingCounts) -> None:
        """Write to the index `ids` and to `counts`."""
        self._ids, self._counts = ids, counts

    def write(self, batch: rocksdict.WriteBatch, changes: Changes) -> None:
        """Put all row changes into the batch, removals first, because an id may be used again in the same step."""
        if changes.gone:
            self._remove_plain(batch, changes.gone)
        drop = self._ids.drop
        for key, entry in changes.removals.items():
            batch.delete(key)
            self._counts.add(entry.to, key, -1)
            drop(batch, key, entry)
        for key, (entry, raw) in changes.puts.items():
            batch.put(key, raw)
            if key in changes.fresh:
                if entry.url is None:  # a callback has the id of a message that has ended
                    batch.put(keys.ID + entry.id.encode(), key)
                self._counts.add(entry.to, key, 1)
            elif entry.replaced:
                drop(batch, key, entry)
        if changes.plain:
            self._put_plain(batch, changes.plain)

    def _put_plain(self, batch: rocksdict.WriteBatch, rows: dict[bytes, bytes]) -> None:
        id_keys, counts = places.of_rows(rows, self._counts.near.end)
        _put_in_order(batch, rows.items())
        _put_in_order(batch, zip(id_keys, rows, strict=True))
        self._counts.add_all(counts, 1)

    def _remove_plain(self, batch: rocksdict.WriteBatch, rows: dict[bytes, bytes | Entry]) -> None:
        id_keys, counts = places.of_rows(rows, self._counts.near.end)
        exhaust(map(batch.delete, sorted(rows)))
        clashes = self._ids.clashes
        if clashes and not clashes.isdisjoint(rows):
            for key, id_key in zip(rows, id_keys, strict=True):
                if key in clashes:
                    self._ids.drop(batch, key, entry_of(rows[key]))
                else:
                    batch.delete(id_key)
        else:
            exhaust(map(batch.delete, sorted(id_keys)))
        self._counts.add_all(counts, -1)


def _put_in_order(batch: rocksdict.WriteBatch, pairs: Iterable[tuple[bytes, bytes]]) -> None:
    exhaust(map(batch.put, *zip(*sorted(pairs), strict=True)))
