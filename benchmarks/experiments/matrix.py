"""Lateness at several rates above several backlogs, in one installation that is filled more and more."""

from dataclasses import replace

from benchmarks.experiments import lateness
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure `lateness` for each of `rates` and `backlogs`."""
    found: Figures = {}
    for backlog in sizes.backlogs:
        with Installation(bootstrap, "matrix") as here:
            for rate in sizes.rates:
                cell = replace(sizes, rate=rate, backlog=backlog)
                found[f"matrix {rate:,}/s above {backlog:,}"] = lateness.steady(here, cell)
    return found
