"""How late deliveries of the last minute were: a histogram that can be added up over workers."""

import bisect
from collections.abc import Callable

_STEPS = (1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.4, 8)
#: Upper bounds in milliseconds: exact below 8, then ten a decade, up to about a day.
BOUNDS = (0, 1, 2, 3, 4, 5, 6, 8, *(int(step * 10**power) for power in range(1, 8) for step in _STEPS))
_SLOT_MS, _SLOTS = 10_000, 6


class Lateness:
    """Counts per bound, over the last minute in slots of ten seconds."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        """Begin with nothing counted; the last minute is `monotonic_ms`'s."""
        self._monotonic_ms = monotonic_ms
        self._slots: dict[int, list[int]] = {}

    def add(self, late_ms: int, deliveries: int = 1) -> None:
        """Count deliveries that were `late_ms` late."""
        slot = self._monotonic_ms() // _SLOT_MS
        counts = self._slots.get(slot)
        if counts is None:
            counts = self._slots[slot] = [0] * (len(BOUNDS) + 1)
            for old in [number for number in self._slots if number <= slot - _SLOTS]:
                del self._slots[old]
        counts[bisect.bisect_left(BOUNDS, late_ms)] += deliveries

    def histogram(self) -> dict[str, int]:
        """Return counts by upper bound in milliseconds as text, `inf` for the rest; empty bounds are left out."""
        first = self._monotonic_ms() // _SLOT_MS - _SLOTS
        totals = [sum(column) for column in zip(*(c for slot, c in self._slots.items() if slot > first), strict=True)]
        names = [*map(str, BOUNDS), "inf"]
        return {name: count for name, count in zip(names, totals, strict=False) if count}
