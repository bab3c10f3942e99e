"""The rows of a step as they are written: with their ids, and counted.

Plain ones go in the order of their keys, then their ids in order: RocksDB searches for the place of what
follows from where it wrote last.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import rocksdict

from tables import keys, places
from tables.changes import Changes
from tables.counts import PendingCounts
from tables.entry import Entry, entry_of
from tables.id_index import IdIndex

#: Exhausts an iterator, in C: a loop in Python would take as long as the work itself.
exhaust: Final = deque[object](maxlen=0).extend


class RowWrites:
    """Puts what a step does to rows into its batch, and into the index and the counts that go with it."""

    def __init__(self, ids: IdIndex, counts: PendingCounts) -> None:
        """Keep `ids` and `counts`."""
        self._ids, self._counts = ids, counts

    def write(self, batch: rocksdict.WriteBatch, changes: Changes) -> None:
        """Put all of it into the batch; what is delivered first, for its id may have come again in the same step."""
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
                if entry.url is None:  # a callback bears the id of a message that has ended
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
