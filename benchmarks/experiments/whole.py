"""One system as a whole: a steady load and a burst, each in an installation of its own."""

from collections.abc import Callable
from dataclasses import replace

from benchmarks.experiments import burst, lateness
from benchmarks.sizes import Sizes
from benchmarks.target import Target


def measure(install: Callable[[str], Target], sizes: Sizes) -> dict[str, float]:
    """Measure `lateness`, above `beside_backlog`, `ingest` and `drain` of the target that `install` makes."""
    with install("lateness") as here:
        steady = lateness.steady(here, replace(sizes, backlog=sizes.beside_backlog, seconds=sizes.beside_seconds))
    with install("burst") as here:
        much = burst.at_once(here, sizes)
    return {**steady, **burst.rates(much), "peak_mib": much["drain"]["peak_mib"]}
