"""A histogram in Prometheus' form: the number of values up to each bound, and their sum, since the process began."""

import bisect
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    """Counts values by bounds in the same unit; values above the last bound are counted too."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin with no values; `bounds` are ascending."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, number: int = 1) -> None:
        """Count a value `number` times."""
        self._counts[bisect.bisect_left(self._bounds, value)] += number
        self.sum += value * number

    def buckets(self) -> list[tuple[str, int]]:
        """Return each bound as text, the last one `+Inf`, with the number of values that are not above it."""
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))
