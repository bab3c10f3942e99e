"""The experiments: each sets up what it measures, measures, checks what came out, and gives its figures."""

from collections.abc import Callable
from functools import partial

from benchmarks.experiments import (
    baselines,
    burst,
    exactly_once,
    lateness,
    matrix,
    mixed,
    recovery,
    restore,
    values,
    workers,
)
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
    matrix.measure: ("matrix",),
    recovery.measure: ("recovery",),
    values.measure: ("values",),
    workers.measure: ("workers",),
    **{partial(baselines.measure, name): (name,) for name in baselines.NAMES},
}
NAMES = tuple(name for names in EXPERIMENTS.values() for name in names)
#: What is measured if nothing else is asked for: the rest takes long, or needs what is not everywhere.
USUAL = ("lateness", "ingest", "drain", "exactly-once", "mixed", "restore", "footprint")
