"""Reads of one partition of the table: rows by due time, by id and by key, and the records for its changelog.

The due loop looks for due rows every few milliseconds, and most looks find the same rows, so rows are read ahead.
"""

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from tables import keys
from tables.counts import PendingCounts
from tables.database import Database
from tables.entry import Entry, decode
from tables.row_writes import IdIndex

#: The ranges of keys that are also in the changelog, in order, without the seal.
_LOGGED = (
    (b"\x00", keys.ROWS_END),
    *map(keys.span, sorted((keys.DELIVERED, keys.COMMANDS, keys.ORIGIN, keys.POSITION, keys.COLD))),
)

#: How much is read ahead: with an iterator for each look, opening iterators took 8 % of a worker's time.
_ROWS, _BYTES = 64, 64 * 1024

#: The maximum size of a look's result, because rows may have a megabyte each.
_MOST_BYTES = 8 << 20

Row = tuple[bytes, bytes]


class StoreReads:
    """Queries of a partition's store; all results show the last applied step."""

    counts: PendingCounts
    _db: Database
    _ids: IdIndex
    _ahead: "ReadAhead"
    #: No row lies below this key: reads begin here, after the tombstones of delivered messages.
    _low: bytes

    def _scan(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._db.items(*keys.span(kind))

    def find(self, id_: str) -> bytes | None:
        """Return the key of the row with this id, or None."""
        return self._db.get(keys.ID + id_.encode())

    def find_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the keys of the rows with these ids, None for an unknown id, in one read."""
        return self._db.get_many([keys.ID + id_.encode() for id_ in ids])

    def find_keys(self, id_keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the same for index keys, which are ids with `keys.ID` before each."""
        return self._db.get_many(id_keys)

    def entry(self, key: bytes) -> Entry | None:
        """Return the row at `key`, or None."""
        raw = self._db.get(key)
        return None if raw is None else decode(raw)

    def raw(self, key: bytes) -> bytes | None:
        """Return the undecoded value under any key, as the changelog has it, or None."""
        return self._db.get(key)

    def due(self, now_ms: int, start: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return up to `limit` rows from key `start` on, due at `now_ms`, in order of (due, arrival), undecoded.

        There are fewer rows if they are large. The second result is a key before which no other row lies, or None if no
        row follows: its due time is when to look again, unless a row is added or removed.
        """
        return self._ahead.due(keys.due_bound(now_ms), max(start, self._low), limit)

    def begin_at(self, key: bytes) -> None:
        """Begin later reads at `key`: no row is left before it, until one is put there."""
        self._low = key

    def next_row(self, start: bytes) -> bytes | None:
        """Return the first row key at or after `start`, or None."""
        return next(self._db.keys(max(start, self._low), keys.ROWS_END), None)

    def count(self, from_ms: int, to_ms: int, limit: int) -> int:
        """Count the rows due between two times by scanning at most `limit` rows."""
        start = max(keys.row_key(from_ms, 0, 0), self._low)
        return sum(1 for _ in itertools.islice(self._db.keys(start, keys.due_bound(to_ms)), limit))

    def look_ahead(self, until_ms: int, limit: int) -> bool:
        """Count at most `limit` more rows by minute; return whether all rows due by `until_ms` are counted."""
        return self.counts.near.look(self._low, until_ms, limit)

    def rows(self) -> Iterator[tuple[bytes, Entry]]:
        """Iterate over all rows in order. The database must stay open."""
        for key, raw in self._db.items(b"\x00", keys.ROWS_END):
            yield key, decode(raw)

    def raw_rows(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the undecoded rows from `start` on. The database must stay open, without writes."""
        return self._db.items(max(start, self._low), keys.ROWS_END)

    def marks(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the marks of remembered ids, as the changelog has them. There must be no writes."""
        for kind in (keys.COMMANDS, keys.DELIVERED, keys.COLD):
            yield from self._scan(kind)

    def image(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the next `limit` records for a changelog of this database, by key from `start` on."""
        items: list[tuple[bytes, bytes]] = []
        for begin, end in _LOGGED:
            if start < end and len(items) < limit:
                items += itertools.islice(self._db.items(max(start, begin), end), limit - len(items))
        return items

    @property
    def clashes(self) -> set[bytes]:
        """Rows that a recovery found to have an id that a later row also has: they count as replaced."""
        return self._ids.clashes


class ReadAhead:
    """All rows from one key up to another, as they are on disk; changes outside that range do not matter."""

    def __init__(self, database: Database) -> None:
        """Begin with no rows read from the `database`."""
        self._db = database
        self._begin = self._end = b""
        self._rows: list[Row] = []

    def due(self, bound: bytes, start: bytes, limit: int) -> tuple[list[Row], bytes | None]:
        """Return up to `limit` rows from key `start` to before `bound`, and the key at which to look on.

        No other row lies before that key; it is None if no row follows at all. If rows are large, fewer are returned.
        """
        self._begin_at(start)
        rows = self._rows
        if self._end < bound and len(rows) <= limit:
            self._read(bound, limit)
        number = min(limit, _before(rows, bound))
        due = rows[:number]
        del rows[:number]
        if due:  # later looks begin there, and the rows may be large
            self._begin = due[-1][0] + b"\x00"
        following = rows[0][0] if rows else self._end
        return due, following if following < keys.ROWS_END else None

    def forget(self, changed: Collection[bytes]) -> None:
        """Drop the rows from the first changed one on, because they may be out of date."""
        if not changed or max(changed) < self._begin:  # removed rows usually lie before the range
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
        """Read on until the rows up to `bound` or `limit` are there, and some more."""
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
                while size < 0 and len(extra) > 1:  # large rows came after small ones
                    size += len(extra.pop()[1])
                    self._end = rows.pop()[0]
                return
            # Parts grow while rows are small, because the number of wanted rows is known only after reading them.
            part = max(1, min(2 * part, more if extra else _ROWS, _BYTES // (max(sizes) + 1)))
        self._end = keys.ROWS_END


def _before(rows: list[Row], key: bytes) -> int:
    """Return the number of rows before a key."""
    return bisect_left(rows, (key,))
