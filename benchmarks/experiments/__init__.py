"""The experiments: each sets up an installation, measures, checks what came out, and gives its figures."""

from collections.abc import Callable

from benchmarks.experiments import burst, exactly_once, lateness, mixed, restore
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes

Experiment = Callable[[str, Sizes], Figures]

#: In the order in which they run, with the names of what they measure.
EXPERIMENTS: dict[Experiment, tuple[str, ...]] = {
    lateness.measure: ("lateness",),
    burst.measure: ("ingest", "drain"),
    exactly_once.measure: ("exactly-once",),
    mixed.measure: ("mixed",),
    restore.measure: ("restore", "footprint"),
}
NAMES = tuple(name for names in EXPERIMENTS.values() for name in names)
