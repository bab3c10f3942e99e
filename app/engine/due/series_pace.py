"""Limits the deliveries of series to the rates of their namespaces: a series is one request, but delivers for years."""

from typing import Final, Protocol

from app.engine.partition.partition import Partition
from tables import Entry

#: Maximum number of occurrences that are remembered as late on purpose; any others count as late.
_REMEMBERED: Final = 100_000


class Rates(Protocol):
    """The rates of namespaces for occurrences."""

    def waits(self, id_: str, now_ms: int) -> int | None:
        """Return until when (epoch ms) an occurrence has to wait, None if it may be delivered."""
        ...

    def deliver(self, number: int, id_: str, now_ms: int) -> None:
        """Count an occurrence that is delivered from a partition."""
        ...


class SeriesPace:
    """Lets occurrences wait until their namespace's rate has room."""

    def __init__(self, rates: Rates) -> None:
        """Hold occurrences back by `rates`."""
        self._rates, self._waited = rates, set[bytes]()

    def holds(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Return whether an occurrence has to wait; if so, the due loop tries it again when there may be room."""
        until_ms = self._rates.waits(entry.id, now)
        if until_ms is None:
            return False
        partition.in_flight.tries.wait(key, until_ms)
        if len(self._waited) >= _REMEMBERED:
            self._waited.clear()
        self._waited.add(key)
        return True

    def sent(self, partition: Partition, entry: Entry, now: int) -> None:
        """Count an occurrence that is being sent."""
        self._rates.deliver(partition.number, entry.id, now)

    def was_held(self, key: bytes) -> bool:
        """Return whether an occurrence has waited, and so is late on purpose; True only at the first call for it."""
        if key not in self._waited:
            return False
        self._waited.discard(key)
        return True
