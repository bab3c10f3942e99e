"""Reads of one partition of the table: rows by due time, by id and by key, and what its changelog has of it.

The due loop looks for due rows every few milliseconds, and most looks find the same ones: so they are read ahead.
"""

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from tables import keys
from tables.counts import PendingCounts
from tables.database import Database
from tables.entry import Entry, decode
from tables.row_writes import IdIndex

#: Where keys lie that the changelog has too, in order; a seal is left out.
_LOGGED = (
    (b"\x00", keys.ROWS_END),
    *map(keys.span, sorted((keys.DELIVERED, keys.COMMANDS, keys.ORIGIN, keys.POSITION, keys.COLD))),
)

#: So much is read beyond what is asked for: with an iterator for each look, opening them took 8 % of a worker's time.
_ROWS, _BYTES = 64, 64 * 1024

#: A look finds no more than this, though more is asked for: rows may have a megabyte each.
_MOST_BYTES = 8 << 20

Row = tuple[bytes, bytes]


class StoreReads:
    """What can be asked of a partition's store; all answers show the last applied step."""

    counts: PendingCounts
    _db: Database
    _ids: IdIndex
    _ahead: "ReadAhead"
    #: No row lies below this key: reads begin here, past the tombstones of what has been delivered.
    _low: bytes

    def _scan(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._db.items(*keys.span(kind))

    def find(self, id_: str) -> bytes | None:
        """Return the key of the row with this id, or None."""
        return self._db.get(keys.ID + id_.encode())

    def find_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the keys of the rows with these ids, None where there is none, in one read."""
        return self._db.get_many([keys.ID + id_.encode() for id_ in ids])

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


class ReadAhead:
    """All rows from one key up to another, as they are on disk; changes outside that range do not matter here."""

    def __init__(self, database: Database) -> None:
        """Begin with nothing known."""
        self._db = database
        self._begin = self._end = b""
        self._rows: list[Row] = []

    def due(self, bound: bytes, start: bytes, limit: int) -> tuple[list[Row], bytes | None]:
        """Return up to `limit` rows from key `start` to before `bound`, and the key at which to look on.

        No other row lies before that key; None if no row follows at all. Of large rows there are fewer, though more
        are there.
        """
        self._begin_at(start)
        rows = self._rows
        if self._end < bound and len(rows) <= limit:
            self._read(bound, limit)
        number = min(limit, _before(rows, bound))
        found = rows[:number]
        del rows[:number]
        if found:  # looks go on from there, and the rows may be large
            self._begin = found[-1][0] + b"\x00"
        following = rows[0][0] if rows else self._end
        return found, following if following < keys.ROWS_END else None

    def forget(self, changed: Collection[bytes]) -> None:
        """Know no more than what lies before the first of these rows."""
        if not changed or max(changed) < self._begin:  # what is removed lies before what is looked for
            return
        first = min((key for key in changed if self._begin <= key < self._end), default=None)
        if first is None:
            return
        del self._rows[_before(self._rows, first) :]
        self._end = first

    def _begin_at(self, start: bytes) -> None:
        if not self._begin <= start <= self._end:
            self._end = start
            self._rows.clear()
        self._begin = start
        del self._rows[: _before(self._rows, start)]

    def _read(self, bound: bytes, limit: int) -> None:
        """Read on, until all is known that is asked for, and some more."""
        scan, rows, part, more, size = self._db.scan(self._end, keys.ROWS_END), self._rows, 1, _ROWS, _BYTES
        most = _MOST_BYTES
        while some := scan.take(part):
            sizes = [len(raw) for _, raw in some]
            wanted = max(0, min(limit - len(rows), _before(some, bound)))
            extra = some[wanted:]
            rows += some
            self._end = some[-1][0] + b"\x00"
            more, size = more - len(extra), size - sum(sizes[wanted:])
            most -= sum(sizes)
            if more <= 0 or size <= 0 or most <= 0:
                while size < 0 and len(extra) > 1:  # large ones have come after small ones
                    size += len(extra.pop()[1])
                    self._end = rows.pop()[0]
                return
            # In ever larger parts, as far as rows are small: how many are wanted shows as they are read.
            part = max(1, min(2 * part, more if extra else _ROWS, _BYTES // (max(sizes) + 1)))
        self._end = keys.ROWS_END


def _before(rows: list[Row], key: bytes) -> int:
    """Return how many of these rows lie before a key."""
    return bisect_left(rows, (key,))
