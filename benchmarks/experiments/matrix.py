"""Lateness at several rates above several backlogs."""

from contextlib import ExitStack
from dataclasses import replace

from benchmarks.experiments import lateness
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure `lateness` for each of `rates` and `backlogs`.

    Each backlog has an installation of its own, filled before anything is measured, so that a rate's figures are taken
    right after the other: the machine's other work changes from minute to minute.
    """
    figures: Figures = {}
    with ExitStack() as stack:
        filled = {
            backlog: stack.enter_context(Installation(bootstrap, f"above{backlog}")) for backlog in sizes.backlogs
        }
        for backlog, here in filled.items():
            lateness.fill(here, replace(sizes, backlog=backlog))
        for rate in sizes.rates:
            for backlog, here in filled.items():
                cell = replace(sizes, rate=rate, backlog=backlog)
                figures[f"matrix {rate:,}/s above {backlog:,}"] = lateness.steady(here, cell)
    return figures
