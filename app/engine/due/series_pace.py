"""Holds the deliveries of series to the rates of their namespaces: a series is one request, and delivers for years."""

from typing import Final, Protocol

from app.engine.partition.partition import Partition
from tables import Entry

#: So many occurrences are remembered as late on purpose; beyond, some count as late.
_REMEMBERED: Final = 100_000


class Rates(Protocol):
    """How many occurrences may be delivered by time."""

    def waits(self, id_: str, now_ms: int) -> int | None:
        """Return until when an occurrence has to wait, None if it may be delivered."""
        ...

    def deliver(self, number: int, id_: str, now_ms: int) -> None:
        """Count an occurrence that is delivered from a partition."""
        ...


class SeriesPace:
    """Has occurrences wait until their namespace's rate has room for them."""

    def __init__(self, rates: Rates) -> None:
        """Ask `rates`."""
        self._rates, self._waited = rates, set[bytes]()

    def holds(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Return whether an occurrence has to wait; the due loop sees it again when there may be room."""
        until_ms = self._rates.waits(entry.id, now)
        if until_ms is None:
            return False
        partition.in_flight.tries.wait(key, until_ms)
        if len(self._waited) >= _REMEMBERED:
            self._waited.clear()
        self._waited.add(key)
        return True

    def sent(self, partition: Partition, entry: Entry, now: int) -> None:
        """Count an occurrence that is on its way."""
        self._rates.deliver(partition.number, entry.id, now)

    def was_held(self, key: bytes) -> bool:
        """Return whether an occurrence has waited: then it is late on purpose. It is asked once."""
        if key not in self._waited:
            return False
        self._waited.discard(key)
        return True
