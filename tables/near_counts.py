"""The number of rows due per minute, as far ahead as a caller has looked; without a caller no minute is counted."""

import itertools

from tables import keys
from tables.database import Database

MINUTE_MS = 60_000


class NearCounts:
    """Counts rows before a key that moves ahead: each once as the key passes it, then as rows are added and removed."""

    def __init__(self, db: Database) -> None:
        """Begin with no rows counted."""
        self._db = db
        #: All rows before this key are counted.
        self.end = b""
        self.minutes: dict[int, int] = {}

    def look(self, start: bytes, until_ms: int, limit: int) -> bool:
        """Count on from the last call's end, or from `start`; return whether all rows due by `until_ms` are counted.

        Each call scans at most `limit` rows. All writes between two calls must be passed to `add`.
        """
        bound, seen = keys.due_bound(until_ms), 0
        if self.end >= bound:
            return True
        for key in itertools.islice(self._db.keys(max(start, self.end), bound), limit):
            self.add(keys.due_of(key) // MINUTE_MS, 1)
            self.end, seen = key + b"\x00", seen + 1
        if seen < limit:
            self.end = bound
        return seen < limit

    def add(self, minute: int, number: int) -> None:
        """Count `number` more rows (or fewer) of a minute."""
        self.minutes[minute] = self.minutes.get(minute, 0) + number
        if not self.minutes[minute]:
            del self.minutes[minute]

    def due_by(self, time_ms: int) -> int | None:
        """Return how many rows are due by the end of the minute of `time_ms`, or None if some are not counted yet."""
        last = time_ms // MINUTE_MS
        if self.end < keys.due_bound((last + 1) * MINUTE_MS - 1):
            return None
        return sum(number for minute, number in self.minutes.items() if minute <= last)

    def forget(self) -> None:
        """Stop counting, and drop all counts."""
        self.end = b""
        self.minutes.clear()
