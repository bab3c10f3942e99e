"""Pending counts per destination and per hour of due time: maintained with every step, never scanned for."""

import rocksdict

from tables import keys
from tables.database import Database


class Counts:
    """How many rows wait, per destination and per hour; kept in memory and written with the step that changed them."""

    def __init__(self, db: Database) -> None:
        """Read the counts that the database holds."""
        self.destinations: dict[str, int] = {}
        self.hours: dict[int, int] = {}
        self._changed: set[str] = set()
        self._changed_hours: set[int] = set()
        for key, value in db.items(*keys.span(keys.BUCKET)):
            self.hours[int.from_bytes(key[1:], "big")] = int.from_bytes(value, "big")
        for key, value in db.items(*keys.span(keys.COUNT)):
            self.destinations[key[1:].decode()] = int.from_bytes(value, "big")
        self.total = sum(self.destinations.values())

    def add(self, destination: str, row_key: bytes, number: int) -> None:
        """Count `number` more rows (or fewer) for a destination and the hour of the row's due time."""
        hour = keys.due_of(row_key) // keys.BUCKET_MS
        self.destinations[destination] = self.destinations.get(destination, 0) + number
        self.hours[hour] = self.hours.get(hour, 0) + number
        self.total += number
        self._changed.add(destination)
        self._changed_hours.add(hour)

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Put what has changed since the last write into the step's batch; counters at zero go."""
        for name in self._changed:
            _write(batch, keys.COUNT + name.encode(), self.destinations[name])
            if not self.destinations[name]:
                del self.destinations[name]
        for hour in self._changed_hours:
            _write(batch, keys.BUCKET + keys.long_bytes(hour), self.hours[hour])
            if not self.hours[hour]:
                del self.hours[hour]
        self._changed.clear()
        self._changed_hours.clear()


def _write(batch: rocksdict.WriteBatch, key: bytes, number: int) -> None:
    if number:
        batch.put(key, keys.long_bytes(number))
    else:
        batch.delete(key)
