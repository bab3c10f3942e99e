"""The same with several worker processes."""

from functools import partial

from benchmarks.experiments import whole
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure one and two workers as a whole."""
    return {
        f"workers {count}": whole.measure(partial(Installation, bootstrap, workers=count), sizes) for count in (1, 2)
    }
