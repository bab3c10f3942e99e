"""Histograms of lateness in the last minute and since the start. They can be added up over workers."""

import bisect
from collections.abc import Callable
from typing import Final

from app.base.histogram import Histogram

_STEPS = (1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.4, 8)
#: Upper bounds in milliseconds: exact up to 6, then ten per decade, up to about a day.
BOUNDS = (0, 1, 2, 3, 4, 5, 6, 8, *(int(step * 10**power) for power in range(1, 8) for step in _STEPS))
#: Upper bounds in seconds of the histogram since the start.
SINCE_START_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_SLOT_MS, _SLOTS = 10_000, 6


class Lateness:
    """Counts deliveries by lateness: over the last minute, in slots of ten seconds, and in `since_start`."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        """Begin without deliveries; `monotonic_ms` is the clock of the last minute."""
        self._monotonic_ms = monotonic_ms
        self._slots: dict[int, list[int]] = {}
        self.since_start = Histogram(SINCE_START_S)

    def add(self, late_ms: int, deliveries: int = 1) -> None:
        """Count deliveries that were `late_ms` late."""
        slot = self._monotonic_ms() // _SLOT_MS
        counts = self._slots.get(slot)
        if counts is None:
            counts = self._slots[slot] = [0] * (len(BOUNDS) + 1)
            for old in [number for number in self._slots if number <= slot - _SLOTS]:
                del self._slots[old]
        counts[bisect.bisect_left(BOUNDS, late_ms)] += deliveries
        self.since_start.add(late_ms / 1000, deliveries)

    def histogram(self) -> dict[str, int]:
        """Return counts by upper bound in milliseconds as text, `inf` for the rest; empty bounds are left out."""
        first = self._monotonic_ms() // _SLOT_MS - _SLOTS
        totals = [sum(column) for column in zip(*(c for slot, c in self._slots.items() if slot > first), strict=True)]
        names = [*map(str, BOUNDS), "inf"]
        return {name: count for name, count in zip(names, totals, strict=False) if count}
