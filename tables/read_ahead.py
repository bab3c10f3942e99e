"""Rows read ahead: due rows are looked for every few milliseconds, and most looks find the same ones."""

from bisect import bisect_left
from collections.abc import Collection

from tables import keys
from tables.database import Database

#: So much is read beyond what is asked for: with an iterator for each look, opening them took 8 % of a worker's time.
_ROWS, _BYTES = 64, 64 * 1024

#: A look finds no more than this, though more is asked for: rows may have a megabyte each.
_MOST_BYTES = 8 << 20

Row = tuple[bytes, bytes]


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
