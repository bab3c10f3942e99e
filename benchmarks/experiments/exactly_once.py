"""What exactly once costs: a steady load and a burst, measured as for at least once."""

from benchmarks.experiments import whole
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure an installation with `DELAY_GUARANTEE=exactly_once` as a whole."""

    def install(name: str) -> Installation:
        return Installation(bootstrap, name, DELAY_GUARANTEE="exactly_once")

    return {"exactly-once": whole.measure(install, sizes)}
