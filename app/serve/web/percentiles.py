"""Percentiles of the lateness of deliveries, from histograms that are summed over partitions."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """The lateness of the last minute's deliveries, in milliseconds.

    A percentile is the upper bound of its bucket: that share of the deliveries was at most as late. None with a `count`
    above 0 means later than the highest bound in `app.engine.due.lateness.BOUNDS`.
    """

    count: int
    p50_ms: float | None
    p99_ms: float | None


def percentiles(histograms: Iterable[Mapping[str, int]]) -> Percentiles:
    """Return the percentiles of all histograms together (counts by upper bound in ms or "inf"); bounds may differ."""
    total: Counter[float] = Counter()
    for histogram in histograms:
        total.update({float(bound): count for bound, count in histogram.items()})
    return Percentiles(count=total.total(), p50_ms=_percentile(total, 50), p99_ms=_percentile(total, 99))


def _percentile(total: Counter[float], percent: int) -> float | None:
    # In integers: 0.99 * 100 is not 99 in floating point, and the answer would be one bucket off.
    wanted = -(-total.total() * percent // 100)
    seen = 0
    for bound in sorted(total):
        seen += total[bound]
        if seen >= wanted > 0:
            return _plain(bound) if math.isfinite(bound) else None
    return None


def _plain(bound: float) -> float:
    return int(bound) if bound.is_integer() else bound
