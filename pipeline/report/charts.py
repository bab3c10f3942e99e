"""The charts of a report: each function draws one of them into the axes that it gets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from matplotlib import dates, ticker
from matplotlib.axes import Axes

from pipeline.ledger.lateness import percentile
from pipeline.ledger.tables import ENDINGS
from pipeline.report.findings import Findings

if TYPE_CHECKING:
    from datetime import date

INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
#: Deliveries are green, pending messages blue, failures warm.
COLOURS = {
    "delivered": "#2f9e6e",
    "pending": "#4c8bd6",
    "cancelled": "#9aa5b1",
    "replaced": "#c3cad3",
    "parked": "#8f7fd1",
    "dropped": "#e8b23c",
    "rejected": "#e2703a",
    "rescued": "#14919b",
    "missing": "#c4302b",
    "refused": "#b8466b",
}
#: Colours of destinations, the largest first.
SERIES = ("#4c8bd6", "#2f9e6e", "#e8b23c", "#8f7fd1", "#e2703a", "#14919b", "#b8466b", "#6b8e23", "#5f6c7b", "#c3cad3")
SHARES = ((0.5, "half", "#2f9e6e"), (0.99, "99 %", "#e8b23c"), (0.999, "99.9 %", "#c4302b"))
_MS_PER_DAY = 86_400_000


def account(axes: Axes, findings: Findings) -> None:
    """Draw the outcomes of each day's messages, one bar for each day."""
    days = sorted({row["day"] for row in findings.verdict.rows})
    heights: Counter[tuple[date, str]] = Counter()
    for row in findings.verdict.rows:
        for name in (*ENDINGS, "pending", "missing", "refused"):
            heights[row["day"], name] += row[name]
    bottom = [0] * len(days)
    for name in ("delivered", "pending", *ENDINGS[1:], "missing", "refused"):
        height = [heights[day, name] for day in days]
        if any(height):
            axes.bar(range(len(days)), height, 0.72, bottom, color=COLOURS[name], label=name)
            bottom = [low + more for low, more in zip(bottom, height, strict=True)]
    every = -(-len(days) // 12) or 1
    axes.set_xticks(range(0, len(days), every), [f"{day:%-d %b}" for day in days[::every]])
    axes.set_xlim(-max(0.6, (6 - len(days)) / 2), len(days) - 1 + max(0.6, (6 - len(days)) / 2))
    _counts(axes)
    _legend(axes)


def lateness(axes: Axes, findings: Findings) -> None:
    """Draw percentiles of lateness over the time of delivery."""
    columns = sorted(findings.late.columns)
    times = [_time(column) for column in columns]
    for share, name, colour in SHARES:
        late = [max(percentile(findings.late.columns[column], share) or 0, 1) for column in columns]
        axes.plot(times, late, color=colour, linewidth=1.8, marker="o", markersize=3, label=name)
    axes.fill_between(times, 1, axes.lines[0].get_ydata(), color=SHARES[0][2], alpha=0.10, linewidth=0)
    _milliseconds(axes, "y")
    _over_time(axes)
    _legend(axes)


def destinations(axes: Axes, findings: Findings) -> None:
    """Draw the percentiles of lateness for each destination, as a line from p50 to p99.9."""
    names = list(findings.late_to)[::-1]
    for row, name in enumerate(names):
        late = [max(percentile(findings.late_to[name], share) or 0, 1) for share, _, _ in SHARES]
        axes.plot([late[0], late[-1]], [row, row], color=GRID, linewidth=6, solid_capstyle="round", zorder=1)
        for (_, label, colour), value in zip(SHARES, late, strict=True):
            axes.scatter([value], [row], s=42, color=colour, zorder=2, label=label if row == 0 else None)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(min(-0.7, len(names) - 4.3), len(names) - 0.3)  # a few rows are drawn at the top
    _milliseconds(axes, "x")
    axes.grid(visible=False, axis="y")
    _legend(axes)


def due(axes: Axes, findings: Findings) -> None:
    """Draw the pending messages over their due times."""
    step, columns = findings.due.step_ms, sorted(findings.due.columns)
    totals: Counter[str] = Counter()
    for counts in findings.due.columns.values():
        totals.update(counts)
    bottom = [0] * len(columns)
    names = sorted(totals, key=lambda name: (name == "others", -totals[name]))
    for name, colour in zip(names, SERIES, strict=False):
        height = [findings.due.columns[column].get(name, 0) for column in columns]
        times = [_time(column + step // 2) for column in columns]
        axes.bar(times, height, 0.86 * step / _MS_PER_DAY, bottom, color=colour, label=_short(name))
        bottom = [low + more for low, more in zip(bottom, height, strict=True)]
    if columns:
        margin = max(step, (8 * step - (columns[-1] - columns[0])) // 2)
        axes.set_xlim(_time(columns[0] - margin), _time(columns[-1] + step + margin))
    _counts(axes)
    _over_time(axes)
    _legend(axes)


def reasons(axes: Axes, findings: Findings) -> None:
    """Draw the reasons why messages failed, the most frequent first."""
    rows = list(findings.reasons)[::-1]
    most = max(count for _, count in rows)
    for row, ((event, _), count) in enumerate(rows):
        axes.barh(row, count, 0.62, color=COLOURS[event])
        axes.text(count + most * 0.015, row, f"{count:,}", va="center", fontsize=9, color=INK)
    axes.set_yticks(range(len(rows)), [f"{reason} ({event})" for (event, reason), _ in rows])
    axes.set_ylim(min(-0.7, len(rows) - 5.3), len(rows) - 0.3)
    axes.set_xlim(0, most * 1.15)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)


def dressed(axes: Axes) -> Axes:
    """Give axes a light grid and no frame; return them."""
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8)
    axes.tick_params(length=0, colors=FAINT, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    return axes


def _time(at_ms: int) -> float:
    """Return a time in days since 1970, matplotlib's unit."""
    return at_ms / _MS_PER_DAY


def _over_time(axes: Axes) -> None:
    axes.xaxis_date()
    locator = dates.AutoDateLocator(minticks=3, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    days, times = ["%Y", "%b", "%-d %b"], ["%H:%M", "%H:%M", "%S.%f"]
    years = ["", "%Y", "%Y", "%-d %b %Y", "%-d %b %Y", "%-d %b %Y %H:%M"]
    axes.xaxis.set_major_formatter(
        dates.ConciseDateFormatter(
            locator, UTC, [*days, *times], zero_formats=["", *days, *times[:2]], offset_formats=years
        )
    )
    axes.xaxis.get_offset_text().set(color=FAINT, fontsize=9)
    axes.grid(visible=False, axis="x")


def _counts(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: brief(value)))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.grid(visible=False, axis="x")


def _milliseconds(axes: Axes, which: str) -> None:
    axis: Any = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}scale")("log")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: lasting(value)))
    axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_minor_locator(ticker.NullLocator())
    low, high = getattr(axes, f"get_{which}lim")()
    getattr(axes, f"set_{which}lim")(min(low, 1), max(high * 1.3, 1_000))


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=len(labels),
            frameon=False,
            fontsize=9,
            labelcolor=INK,
            handlelength=1.0,
            columnspacing=1.4,
            borderaxespad=0.2,
        )


def brief(value: float) -> str:
    """Return a count in few characters: 1.2M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"


def lasting(value_ms: float) -> str:
    """Return a time in two digits: 40 ms, 2.5 s, 3 min."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if value_ms >= size:
            return f"{float(f'{value_ms / size:.2g}'):g} {unit}"
    return f"{float(f'{value_ms:.2g}'):g} ms"


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


#: The charts in their order on the page: heading, description, width (1 or 2 columns), function.
CHARTS: Sequence[tuple[str, str, int, Any]] = (
    ("Outcomes of each day's messages", "by the day of acceptance, UTC", 2, account),
    (
        "Lateness of deliveries",
        "lateness that this share of the deliveries did not exceed; by time of delivery, UTC",
        2,
        lateness,
    ),
    ("Lateness by destination", "the destinations with the most deliveries", 1, destinations),
    ("Why messages failed", "refused: never accepted; rejected, dropped: accepted, then not delivered", 1, reasons),
    ("Pending messages", "by their due time, UTC", 2, due),
)


def there(findings: Findings, draw: Any) -> bool:
    """Return whether the findings have data for a chart."""
    needed: Mapping[Any, object] = {
        account: findings.verdict.rows,
        lateness: findings.late.columns,
        destinations: findings.late_to,
        due: findings.due.columns,
        reasons: findings.reasons,
    }
    return bool(needed[draw])
