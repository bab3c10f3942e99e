"""Restarts with little and with much pending."""

from dataclasses import replace

from benchmarks.experiments import restore
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure `restore` and `footprint` for each of `recoveries`."""
    found: Figures = {}
    for rows in sizes.recoveries:
        figures = restore.measure(bootstrap, replace(sizes, rows=rows))
        found[f"recovery {rows:,}"] = figures["restore"] | figures["footprint"]
    return found
