"""Pending counts per destination and per hour of due time: maintained with every step, never scanned for."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import rocksdict

from tables import keys
from tables.database import Database
from tables.near_counts import MINUTE_MS, NearCounts

T = TypeVar("T", str, int)

due_of, _HOUR_MS = keys.due_of, keys.BUCKET_MS
_HOUR_MINUTES = _HOUR_MS // MINUTE_MS


class PendingCounts:
    """The number of rows per destination and per hour, kept in memory and written with the step that changes them."""

    def __init__(self, db: Database) -> None:
        """Read the counts that the database holds."""
        self.destinations: dict[str, int] = {}
        self.hours: dict[int, int] = {}
        self._added: dict[tuple[str, int], int] = {}
        self.near = NearCounts(db)
        for key, value in db.items(*keys.span(keys.BUCKET)):
            self.hours[int.from_bytes(key[1:], "big")] = int.from_bytes(value, "big")
        for key, value in db.items(*keys.span(keys.COUNT)):
            self.destinations[key[1:].decode()] = int.from_bytes(value, "big")
        self.total = sum(self.destinations.values())

    def add(self, destination: str, row_key: bytes, number: int) -> None:
        """Count `number` more (or fewer) rows for a destination and the hour of the row's due time, at the next write.

        URLs are counted by origin.
        """
        due_ms = due_of(row_key)
        # This is inlined because it runs twice for each message.
        place = destination, due_ms // MINUTE_MS if row_key < self.near.end else -1 - due_ms // _HOUR_MS
        self._added[place] = self._added.get(place, 0) + number

    def add_all(self, places: Iterable[tuple[str, int, int]], times: int) -> None:
        """Add `times` (1 or -1) the counts by destination and unit that tables/places.py has added up."""
        for destination, unit, number in places:
            place = destination, unit
            self._added[place] = self._added.get(place, 0) + number * times

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Put the counters that changed since the last write into the step's batch; counters at zero are deleted."""
        names, hours = Counter[str](), Counter[int]()
        for (name, unit), number in self._added.items():
            names[display_name(name)] += number
            hours[_hour_of(unit)] += number
            if unit >= 0:
                self.near.add(unit, number)
        self._added.clear()
        for name, number in names.items():
            _write(batch, keys.COUNT + name.encode(), self.destinations, name, number)
        for hour, number in hours.items():
            _write(batch, keys.BUCKET + keys.long_bytes(hour), self.hours, hour, number)
        self.total += names.total()


def _write(batch: rocksdict.WriteBatch, key: bytes, counters: dict[T, int], name: T, number: int) -> None:
    counters[name] = counters.get(name, 0) + number
    if counters[name]:
        batch.put(key, keys.long_bytes(counters[name]))
    else:
        del counters[name]
        batch.delete(key)


def _hour_of(unit: int) -> int:
    """Return the hour of a unit: a minute, or -1 minus an hour where rows are not counted by minute."""
    return unit // _HOUR_MINUTES if unit >= 0 else -1 - unit


def display_name(to: str) -> str:
    """Return a topic's name unchanged, and a URL's origin: scheme, host and port.

    Paths are left out because they may hold secrets, and there may be as many paths as messages.
    """
    if "://" not in to:
        return to
    scheme, _, rest = to.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"
