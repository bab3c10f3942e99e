"""The experiments: each sets up an installation, measures, checks the deliveries, and returns its figures."""

from collections.abc import Callable
from functools import partial

from benchmarks.experiments import (
    baselines,
    burst,
    busy,
    exactly_once,
    kill,
    lateness,
    look,
    matrix,
    mixed,
    overload,
    recovery,
    restore,
    soak,
    values,
    workers,
)
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes

Experiment = Callable[[str, Sizes], Figures]


def _pipeline(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure the Spark jobs. Only this experiment needs Spark."""
    from benchmarks.experiments import pipeline  # noqa: PLC0415 - all others run where Spark is not installed

    return pipeline.measure(bootstrap, sizes)


#: In their order, with the names of their figures. A broker that has just started takes a minute or two of load, and
#: more than one core, until it has compiled its code: lateness is measured later.
EXPERIMENTS: dict[Experiment, tuple[str, ...]] = {
    burst.measure: ("ingest", "drain"),
    restore.measure: ("restore", "footprint"),
    mixed.measure: ("mixed",),
    lateness.measure: ("lateness",),
    exactly_once.measure: ("exactly-once",),
    workers.measure: ("workers",),
    **{partial(baselines.measure, name): (name,) for name in baselines.NAMES},
    matrix.measure: ("matrix",),
    recovery.measure: ("recovery",),
    values.measure: ("values",),
    kill.measure: ("kill",),
    overload.measure: ("overload",),
    busy.measure: ("busy-machine",),
    soak.measure: ("soak",),
    look.measure: ("look",),
    _pipeline: ("pipeline",),
}
NAMES = tuple(name for names in EXPERIMENTS.values() for name in names)
#: The default: the other experiments take long, or need more than every machine has.
USUAL = ("ingest", "drain", "restore", "footprint", "mixed", "lateness", "exactly-once")
#: Experiments that are compared, one system right after the other.
BESIDE = ("exactly-once", "workers", *baselines.NAMES)
#: Names for several.
GROUPS: dict[str, tuple[str, ...]] = {"baselines": baselines.NAMES, "beside": BESIDE}
