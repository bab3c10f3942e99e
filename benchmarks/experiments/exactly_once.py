"""What exactly once costs: a steady load and a burst, measured as for at least once."""

from functools import partial

from benchmarks.experiments import whole
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure an installation with `DELAY_GUARANTEE=exactly_once` as a whole."""
    return {"exactly-once": whole.measure(partial(Installation, bootstrap, DELAY_GUARANTEE="exactly_once"), sizes)}
