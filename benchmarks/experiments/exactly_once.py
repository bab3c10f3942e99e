"""What exactly once costs: a steady load and a burst, measured as for at least once."""

from benchmarks.experiments import burst, lateness
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes

_MODE = {"DELAY_GUARANTEE": "exactly_once"}


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure `lateness`, `ingest` and `drain` with `DELAY_GUARANTEE=exactly_once`."""
    steady = lateness.measure(bootstrap, sizes, **_MODE)["lateness"]
    much = burst.measure(bootstrap, sizes, **_MODE)
    rates = {f"{name}_{figure}": much[name][figure] for name in ("ingest", "drain") for figure in ("per_s", "cpu_us")}
    return {"exactly-once": {**steady, **rates}}
