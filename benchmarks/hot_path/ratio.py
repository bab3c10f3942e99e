"""Ratios of the costs of two trees, and their certainty."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_SURE = 0.95
#: With fewer values, even minimum and maximum do not bound the median with 95 % certainty.
ENOUGH = 6


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds' ratios, and the bounds between which it lies with a certainty of 95 %."""

    median: float
    low: float
    high: float


def ratio(now: Sequence[float], then: Sequence[float]) -> Ratio:
    """Return the ratio of the costs of rounds, now to then.

    The bounds are order statistics: whatever the distribution, the median lies between the k-th smallest and the k-th
    largest of n values unless fewer than k values fall on one side. For fewer than ENOUGH values they are the minimum
    and the maximum.
    """
    ratios = sorted(one / other for one, other in zip(now, then, strict=True))
    skip = _skipped(len(ratios))
    return Ratio(statistics.median(ratios), ratios[skip], ratios[-1 - skip])


def _skipped(count: int) -> int:
    """Return how many values on either side lie beyond the bounds."""
    skip, tail = 0, 1 / 2**count
    while 2 * (tail + math.comb(count, skip + 1) / 2**count) <= 1 - _SURE:
        skip += 1
        tail += math.comb(count, skip) / 2**count
    return skip
