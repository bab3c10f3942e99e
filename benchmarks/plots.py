"""Figures as pictures."""

import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.experiments import baselines
from benchmarks.figures import Figures

_SHARES = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}
#: The charts, with their alternative texts.
PICTURES = {
    "lateness-matrix.png": "Chart: p99 lateness by message rate, one line per number of pending messages",
    "lateness-compared.png": "Chart: lateness of Punctual compared with Kafka Streams, a Redis sorted set and etf1's "
    "scheduler, p50, p99 and p99.9 at 1,000 messages/s",
    "restore.png": "Chart: seconds until a worker is ready again, by number of pending messages",
}
#: Shades of one hue, the tail lightest, because the chart compares systems.
_SHADES = ("#0b4f55", "#0b8a92", "#9fd0d3")
#: Lines differ by more than their colour.
_LINES = (("#0b7a82", "o", "-"), ("#d9822b", "s", "--"), ("#5b6fd6", "^", ":"))
_Drawing = Callable[[Any, Figures], bool]
_CELL = re.compile(r"matrix ([\d,]+)/s above ([\d,]+)")


def draw(figures: Figures, directory: Path) -> list[Path]:
    """Draw the charts for which there are figures into a directory, and remove the others; return the files."""
    import matplotlib as mpl  # noqa: PLC0415 - slow, and only needed here

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    drawings: dict[str, _Drawing] = {
        "lateness-matrix.png": _matrix,
        "lateness-compared.png": _compared,
        "restore.png": _restore,
    }
    drawn = []
    for name, drawing in drawings.items():
        canvas, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
        if drawing(axes, figures):
            axes.legend(frameon=False)
            axes.spines[["top", "right"]].set_visible(False)
            for axis in (axes.xaxis, axes.yaxis):
                if axis.get_scale() == "log":
                    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                    axis.set_major_formatter("{x:,.9g}")
                    axis.set_minor_formatter(NullFormatter())
            canvas.savefig(directory / name, dpi=200, metadata={"Software": None})
            drawn.append(directory / name)
        else:
            (directory / name).unlink(missing_ok=True)
        plt.close(canvas)
    return drawn


def _matrix(axes: Any, figures: Figures) -> bool:
    """Draw p99 against the rate, a line for each backlog."""
    lines: dict[int, dict[int, float]] = {}
    for group, values in figures.items():
        match = _CELL.fullmatch(group)
        if match:
            rate, backlog = (int(it.replace(",", "")) for it in match.groups())
            lines.setdefault(backlog, {})[rate] = values["p99_ms"]
    for (backlog, line), (colour, marker, style) in zip(sorted(lines.items()), cycle(_LINES), strict=False):
        pairs = sorted(line.items())
        axes.plot(
            [rate for rate, _ in pairs],
            [late_ms for _, late_ms in pairs],
            color=colour,
            marker=marker,
            linestyle=style,
            linewidth=2,
            label=f"{backlog:,} pending",
        )
    axes.set(xscale="log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("messages/s", fontsize=11)
    axes.set_ylabel("p99 lateness, ms", fontsize=11)
    axes.set_title("p99 lateness: one worker on two cores, shared with broker and load generator", fontsize=12)
    axes.grid(alpha=0.3)
    return bool(lines)


def _compared(axes: Any, figures: Figures) -> bool:
    """Draw the lateness of each system at the same load, a group of bars for each."""
    own_group = "workers 1" if "workers 1" in figures else "lateness"
    titles = {own_group: "Punctual", "exactly-once": "Punctual, exactly once", **baselines.TITLES}
    figures_by_title = {title: figures[group] for group, title in reversed(titles.items()) if group in figures}
    height = 0.8 / len(_SHARES)
    for number, (share, label) in enumerate(_SHARES.items()):
        bars = axes.barh(
            [at - number * height for at in range(len(figures_by_title))],
            [values[share] for values in figures_by_title.values()],
            height,
            label=label,
            color=_SHADES[number],
        )
        axes.bar_label(bars, fmt="{:.0f} ms", fontsize=10, padding=3)
    axes.set_yticks([at - height for at in range(len(figures_by_title))], list(figures_by_title), fontsize=11)
    for label in axes.get_yticklabels():
        if label.get_text().startswith("Punctual"):
            label.set_fontweight("bold")
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.12, y=0.02)
    axes.set_xlabel("lateness, ms (shorter is better)", fontsize=11)
    axes.set_title("Lateness at 1,000 messages/s, compared with other systems", fontsize=13)
    return len(figures_by_title) > 1


def _restore(axes: Any, figures: Figures) -> bool:
    """Draw the time of a start against the number of pending messages."""
    both = figures.get("restore", {}) | figures.get("footprint", {})
    points = [both, *(values for group, values in figures.items() if group.split()[0] == "recovery")]
    points = sorted((values for values in points if values), key=lambda values: values["pending"])
    lines = {"empty disk": "empty_disk_ready_s", "same disk": "same_disk_ready_s", "after kill -9": "kill_delivery_s"}
    for (label, name), (colour, marker, style) in zip(lines.items(), _LINES, strict=True):
        axes.plot(
            [it["pending"] for it in points],
            [it[name] for it in points],
            color=colour,
            marker=marker,
            linestyle=style,
            linewidth=2,
            label=label,
        )
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("pending messages", fontsize=11)
    axes.set_ylabel("seconds", fontsize=11)
    axes.set_title("Time until a worker is ready again", fontsize=13)
    axes.grid(alpha=0.3)
    return len(points) > 1
