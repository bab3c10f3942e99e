"""The chart of the timeline: bars stacked by destination, for drawing as SVG."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from app.engine.steps.plan import PAUSED_MS
from app.serve.console import wording
from punctual.contract.destination import described

#: The drawing's own units; the page stretches it to its width.
WIDTH: Final = 1000
HEIGHT: Final = 160
SERIES: Final = 6
#: With fewer bars than this, each is as narrow as if there were _SLOTS bars, because they would look like blocks.
_FEW: Final = 4
_SLOTS: Final = 12
_OTHERS: Final = "others"
#: The series of messages whose destination is unknown, and of messages that are only estimated.
TOGETHER: Final = SERIES + 1
LIKELY: Final = SERIES + 2
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_SECOND_MS: Final = 1_000
#: The minimum height of a stack with messages, so that it can be seen next to larger ones.
_MIN_HEIGHT: Final = 2.0


class BarPart(msgspec.Struct, frozen=True):
    """One destination's share of a bar."""

    series: int
    y: float
    height: float


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """The messages due within one span of time."""

    x: float
    width: float
    parts: list[BarPart]
    from_ms: int
    to_ms: int
    total: int
    exact: bool
    late: bool
    label: str


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """Bars of one step, under a title, with their own scale."""

    title: str
    most: int
    total: int
    exact: bool
    bars: list[Bar]
    first: str
    last: str


class TimelineChart(msgspec.Struct, frozen=True):
    """Panels side by side and the names of their series, the largest first; `kinds` are all drawn series.

    `paused` is the number of paused recurring messages, which are in none of the panels.
    """

    panels: list[Panel]
    names: list[str]
    kinds: frozenset[int] = frozenset()
    paused: int = 0


def timeline_chart(buckets: Sequence[Mapping[str, Any]], now_ms: int) -> TimelineChart:
    """Return the chart of buckets of `/api/v1/timeline`; a new panel begins where their step changes."""
    paused = sum(_total(bucket) for bucket in buckets if _is_paused(bucket))
    if paused:
        buckets = [bucket for bucket in buckets if not _is_paused(bucket)]
        while buckets and buckets[-1]["from_ms"] > now_ms and not _total(buckets[-1]):
            buckets.pop()  # the empty buckets before them
    sums: Counter[str] = Counter()
    for bucket in buckets:
        sums.update(bucket["by"])
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    separate = ranked if len(ranked) <= SERIES + 1 else ranked[:SERIES]
    series = {name: min(index, SERIES) for index, name in enumerate(ranked)}
    names = [described(name) for name in separate] + ([_OTHERS] if len(separate) < len(ranked) else [])
    groups = groupby(buckets, lambda bucket: _title(bucket, now_ms))
    panels = [_panel(title, list(group), series, now_ms) for title, group in groups]
    panels = [panel for panel in panels if panel.total or not all(bar.late for bar in panel.bars)]
    kinds = frozenset(part.series for panel in panels for bar in panel.bars for part in bar.parts)
    return TimelineChart(panels, names, kinds, paused)


def _is_paused(bucket: Mapping[str, Any]) -> bool:
    """Return whether a bucket holds the paused recurring messages: no other message can be due that late."""
    return bool(PAUSED_MS // 2 < bucket["from_ms"] <= PAUSED_MS < bucket["to_ms"])


def _title(bucket: Mapping[str, Any], now_ms: int) -> str:
    if bucket["to_ms"] <= now_ms:
        return "Late"
    span = bucket["to_ms"] - bucket["from_ms"]
    titles = {_SECOND_MS: "Per second", _MINUTE_MS: "Per minute", _HOUR_MS: "Per hour"}
    if span in titles:
        return titles[span]
    if span < _MINUTE_MS:
        return "Several seconds per bar"
    return "Several minutes per bar" if span < _HOUR_MS else "Later"


def _panel(title: str, group: list[Mapping[str, Any]], series: Mapping[str, int], now_ms: int) -> Panel:
    most = max(_total(bucket) for bucket in group)
    few = len(group) < _FEW
    width = WIDTH / (_SLOTS if few else len(group))
    bars = [
        Bar(
            x=round(index * width, 2),
            width=round(width * 0.86, 2),
            parts=_stack(bucket, series, most),
            from_ms=bucket["from_ms"],
            to_ms=bucket["to_ms"],
            total=_total(bucket),
            exact=bucket["exact"],
            late=bucket["to_ms"] <= now_ms,
            label=_label(bucket),
        )
        for index, bucket in enumerate(group)
    ]
    first, last = (wording.short(at_ms, now_ms) for at_ms in (group[0]["from_ms"], group[-1]["to_ms"]))
    return Panel(
        title=title,
        most=most,
        total=sum(map(_total, group)),
        exact=all(bucket["exact"] for bucket in group),
        bars=bars,
        first=f"{first} to {last}" if few else first,
        last="" if few else last,
    )


def _total(bucket: Mapping[str, Any]) -> int:
    """Return the number of messages in a bucket, including the estimated ones."""
    total: int = bucket["total"] + bucket["unseen"]
    return total


def _label(bucket: Mapping[str, Any]) -> str:
    prefix = "" if bucket["exact"] else "about "
    return f"{prefix}{wording.number(_total(bucket))} due {wording.moments(bucket['from_ms'], bucket['to_ms'])}"


def _stack(bucket: Mapping[str, Any], series: Mapping[str, int], most: int) -> list[BarPart]:
    counts: Counter[int] = Counter()
    for name, count in bucket["by"].items():
        counts[series[name]] += count
    counts[TOGETHER] += max(0, bucket["total"] - counts.total())
    counts[LIKELY] += bucket["unseen"]
    parts, y = [], float(HEIGHT)
    for index in sorted(counts):
        height = max(_MIN_HEIGHT, counts[index] / most * (HEIGHT - 4)) if most and counts[index] else 0.0
        y = max(0.0, y - height)
        if height:
            parts.append(BarPart(index, round(y, 2), round(height, 2)))
    return parts
