"""Restarts with little and with much pending."""

from dataclasses import replace

from benchmarks.experiments import restore
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure `restore` and `footprint` for each of `recoveries`."""
    figures: Figures = {}
    for rows in sizes.recoveries:
        measured = restore.measure(bootstrap, replace(sizes, rows=rows))
        figures[f"recovery {rows:,}"] = measured["restore"] | measured["footprint"]
    return figures
