"""Bursts of small and large values."""

from dataclasses import replace

from benchmarks.experiments import burst
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes

_AT_MOST_BYTES = 500_000_000


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure `ingest` and `drain` for each of `values`, with fewer messages if they are large."""
    figures: Figures = {}
    for value_bytes in sizes.values:
        cell = replace(sizes, value_bytes=value_bytes, burst=min(sizes.burst, _AT_MOST_BYTES // value_bytes))
        with Installation(bootstrap, "values") as here:
            figures[f"values {value_bytes:,} B"] = burst.rates(burst.at_once(here, cell))
    return figures
