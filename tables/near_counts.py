"""How many rows are due by minute, as far ahead as somebody has had them looked at; nobody asks, nothing is counted."""

import itertools

from tables import keys
from tables.database import Database

MINUTE_MS = 60_000


class NearCounts:
    """Counts rows before a key that moves ahead: once as it passes them, and from then on as they come and go."""

    def __init__(self, db: Database) -> None:
        """Have looked at nothing."""
        self._db = db
        #: All rows before this key are counted.
        self.end = b""
        self.minutes: dict[int, int] = {}

    def look(self, start: bytes, until_ms: int, limit: int) -> bool:
        """Go on from where the last look ended, or from `start`; return whether all due by then is counted.

        At most `limit` rows are looked at; what is written between two looks must have been told to Counts.
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
        """Return how many rows are due by the end of the minute of a time; None if not all of them are counted."""
        last = time_ms // MINUTE_MS
        if self.end < keys.due_bound((last + 1) * MINUTE_MS - 1):
            return None
        return sum(number for minute, number in self.minutes.items() if minute <= last)

    def forget(self) -> None:
        """Count nothing any more."""
        self.end = b""
        self.minutes.clear()
