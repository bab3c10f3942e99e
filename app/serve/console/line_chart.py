"""The chart of an hour by minute: one line for each of two measures, for drawing as SVG."""

from collections.abc import Sequence
from typing import Final

import msgspec

WIDTH: Final = 600
HEIGHT: Final = 120
_AIR: Final = 6
_STROKE: Final = 4


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One measure: its runs of points, interrupted by unknown values, and its newest value."""

    name: str
    runs: list[str]
    last: float | None


class LineChart(msgspec.Struct, frozen=True):
    """Two measures with the same scale and the same minutes."""

    lines: list[Line]
    most: float
    minutes: int


def line_chart(measures: dict[str, Sequence[float | None]]) -> LineChart:
    """Return the chart of `measures`, the oldest value first; None is a minute without a value."""
    most = max((value for values in measures.values() for value in values if value is not None), default=0.0)
    minutes = max(map(len, measures.values()), default=0)
    lines = [Line(name=name, runs=_runs(values, most), last=_last(values)) for name, values in measures.items()]
    return LineChart(lines, most, minutes)


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _runs(values: Sequence[float | None], most: float) -> list[str]:
    step = WIDTH / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
            continue
        y = HEIGHT - _AIR - (value / most if most else 0) * (HEIGHT - 2 * _AIR)
        runs[-1].append(f"{index * step:.1f},{y:.1f}")
    # A single minute between gaps would be an invisible point: it becomes a short stroke.
    return [" ".join(run if len(run) > 1 else _stroke(run[0])) for run in runs if run]


def _stroke(point: str) -> list[str]:
    x, _, y = point.partition(",")
    left = min(float(x), WIDTH - _STROKE)
    return [f"{left:.1f},{y}", f"{left + _STROKE:.1f},{y}"]
