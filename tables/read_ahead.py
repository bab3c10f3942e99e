"""Rows read ahead: due rows are looked for every few milliseconds, and most looks find the same ones."""

from collections import deque
from collections.abc import Iterable

from tables import keys
from tables.database import Database

#: So much is read beyond what is asked for: with an iterator for each look, opening them took 8 % of a worker's time.
_ROWS, _BYTES = 64, 64 * 1024


class ReadAhead:
    """All rows from one key up to another, as they are on disk; changes outside that range do not matter here."""

    def __init__(self, database: Database) -> None:
        """Begin with nothing known."""
        self._db = database
        self._begin = self._end = b""
        self._rows: deque[tuple[bytes, bytes]] = deque()

    def due(self, bound: bytes, start: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return up to `limit` rows from key `start` to before `bound`, and the key at which to look on.

        No other row lies before that key; None if no row follows at all.
        """
        self._begin_at(start)
        rows = self._rows
        if self._end < bound and len(rows) <= limit:
            self._read(bound, limit)
        found = list[tuple[bytes, bytes]]()
        while rows and rows[0][0] < bound and len(found) < limit:
            found.append(rows.popleft())
        if found:  # looks go on from there, and the rows may be large
            self._begin = found[-1][0] + b"\x00"
        following = rows[0][0] if rows else self._end
        return found, following if following < keys.ROWS_END else None

    def forget(self, changed: Iterable[bytes]) -> None:
        """Know no more than what lies before the first of these rows."""
        first = min((key for key in changed if self._begin <= key < self._end), default=None)
        if first is None:
            return
        while self._rows and self._rows[-1][0] >= first:
            self._rows.pop()
        self._end = first

    def _begin_at(self, start: bytes) -> None:
        if not self._begin <= start <= self._end:
            self._end = start
            self._rows.clear()
        self._begin = start
        while self._rows and self._rows[0][0] < start:
            self._rows.popleft()

    def _read(self, bound: bytes, limit: int) -> None:
        """Read on, until all is known that is asked for, and some more."""
        rows, more, size = self._rows, _ROWS, _BYTES
        for key, raw in self._db.items(self._end, keys.ROWS_END):
            rows.append((key, raw))
            self._end = key + b"\x00"
            if key >= bound or len(rows) > limit:
                more, size = more - 1, size - len(raw)
                if more <= 0 or size <= 0:
                    return
        self._end = keys.ROWS_END
