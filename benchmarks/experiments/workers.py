"""The same with one process and with two, by the worker's own option `--processes`, or DELAY_PROCESSES."""

from functools import partial

from benchmarks.experiments import whole
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure a worker of one process, and one of two, as a whole."""
    return {
        f"workers {count}": whole.measure(partial(Installation, bootstrap, DELAY_PROCESSES=f"{count}"), sizes)
        for count in (1, 2)
    }
