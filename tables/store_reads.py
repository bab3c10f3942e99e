"""Reads of one partition of the table: rows by due time, by id and by key, and what its changelog has of it."""

import itertools
from collections.abc import Iterator, Sequence

from tables import keys
from tables.counts import PendingCounts
from tables.database import Database
from tables.entry import Entry, decode
from tables.id_index import IdIndex
from tables.read_ahead import ReadAhead

#: Where keys lie that the changelog has too, in order; a seal is left out.
_LOGGED = (
    (b"\x00", keys.ROWS_END),
    *map(keys.span, sorted((keys.DELIVERED, keys.COMMANDS, keys.ORIGIN, keys.POSITION, keys.COLD))),
)


class StoreReads:
    """What can be asked of a partition's store; all answers show the last applied step."""

    counts: PendingCounts
    _db: Database
    _ids: IdIndex
    _ahead: ReadAhead
    #: No row lies below this key: reads begin here, past the tombstones of what has been delivered.
    _low: bytes

    def _scan(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._db.items(*keys.span(kind))

    def find(self, id_: str) -> bytes | None:
        """Return the key of the row with this id, or None."""
        return self._ids.find(id_)

    def find_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the keys of the rows with these ids, None where there is none, in one read."""
        return self._ids.find_many(ids)

    def find_keys(self, id_keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the same of ids that are index keys already: `keys.ID` before each."""
        return self._db.get_many(id_keys)

    def entry(self, key: bytes) -> Entry | None:
        """Return the row at `key`, or None."""
        raw = self._db.get(key)
        return None if raw is None else decode(raw)

    def raw(self, key: bytes) -> bytes | None:
        """Return what is stored under any key, as the changelog has it, or None."""
        return self._db.get(key)

    def due(self, now_ms: int, start: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return up to `limit` rows from key `start` on, due at `now_ms`, in order of (due, arrival), undecoded.

        Large ones are fewer at a time.
        And, from the same look, a key before which no other row lies, None if none follows: its due time is when to
        look again, unless something changes.
        """
        return self._ahead.due(keys.due_bound(now_ms), max(start, self._low), limit)

    def begin_at(self, key: bytes) -> None:
        """Look for rows from `key` on: none before it is left, until one is put there."""
        self._low = key

    def next_row(self, start: bytes) -> bytes | None:
        """Return the first row key at or after `start`, or None."""
        return next(self._db.keys(max(start, self._low), keys.ROWS_END), None)

    def count(self, from_ms: int, to_ms: int, limit: int) -> int:
        """Count rows due in a span by looking at them, at most `limit`."""
        start = max(keys.row_key(from_ms, 0, 0), self._low)
        return sum(1 for _ in itertools.islice(self._db.keys(start, keys.due_bound(to_ms)), limit))

    def look_ahead(self, until_ms: int, limit: int) -> bool:
        """Have at most `limit` more rows counted by minute; return whether all that are due by then are."""
        return self.counts.near.look(self._low, until_ms, limit)

    def rows(self) -> Iterator[tuple[bytes, Entry]]:
        """Go through all rows in order. The database must not be closed meanwhile."""
        for key, raw in self._db.items(b"\x00", keys.ROWS_END):
            yield key, decode(raw)

    def raw_rows(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Go through rows from a key on, undecoded. The database must not be closed or written to meanwhile."""
        return self._db.items(max(start, self._low), keys.ROWS_END)

    def marks(self) -> Iterator[tuple[bytes, bytes]]:
        """Go through what is remembered of ids, as the changelog has it. No writes meanwhile."""
        for kind in (keys.COMMANDS, keys.DELIVERED, keys.COLD):
            yield from self._scan(kind)

    def image(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the next `limit` records that a changelog has of this database, by key from `start` on."""
        found: list[tuple[bytes, bytes]] = []
        for begin, end in _LOGGED:
            if start < end and len(found) < limit:
                found += itertools.islice(self._db.items(max(start, begin), end), limit - len(found))
        return found

    @property
    def clashes(self) -> set[bytes]:
        """Rows found in recovery whose id has a later row: what is left of them is replaced."""
        return self._ids.clashes
