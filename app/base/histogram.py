"""A histogram as Prometheus counts: how many values up to each bound, and their sum, since the process began."""

import bisect
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    """Counts values by bounds in the same unit; one beyond the last bound is counted too."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin with nothing counted; `bounds` go up."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, number: int = 1) -> None:
        """Count a value so many times."""
        self._counts[bisect.bisect_left(self._bounds, value)] += number
        self.sum += value * number

    def buckets(self) -> list[tuple[str, int]]:
        """Return each bound as text, the last one `+Inf`, with how many values are not above it."""
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))
