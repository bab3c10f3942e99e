"""A run of experiments."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import calibration, kernel, machine
from benchmarks.errors import BaselineFailed, BaselineMissing
from benchmarks.experiments import BESIDE, EXPERIMENTS, baselines, burst
from benchmarks.figures import Figures, calibrated, medians
from benchmarks.installation import worker_settings
from benchmarks.options import Options
from benchmarks.result import Result
from benchmarks.sizes import GUARD, Sizes


def run(options: Options, bootstrap: str, where: machine.Machine) -> list[Result]:
    """Run what is wanted, so many times; return a result for each path that the workers are to take.

    With both paths they take turns, and what they go beside is measured once a run, with the last of them.

    Raises BenchmarkError if a run gives no result: something was lost or early, or a process failed.
    """
    _warm_up(options, bootstrap)
    found: dict[kernel.Kernel | None, list[Figures]] = {path: [] for path in options.kernels}
    took: dict[kernel.Kernel | None, kernel.Kernel] = {}
    for number in range(1, options.runs + 1):
        for path in options.kernels:
            only = options.only if path == options.kernels[-1] else _of_workers(options.only)
            about = f"{number}/{options.runs}" + (f", compiled path {path}," if path else "")
            with kernel.told(path):
                found[path].append(_once(only, options.sizes, bootstrap, about))
            took[path] = kernel.taken(path)
    settings = worker_settings()
    return [
        Result(
            machine=where,
            sizes=options.sizes,
            settings=settings,
            kernel=took[path],
            figures=medians(runs),
            runs=runs,
        )
        for path, runs in found.items()
    ]


def _of_workers(only: Sequence[str]) -> list[str]:
    return [name for name in only if name not in baselines.NAMES]


def _warm_up(options: Options, bootstrap: str) -> None:
    """Have messages go through the broker if lateness is what is measured first: it is slow until it knows its work."""
    if set(options.only) & set(BESIDE) and not {"ingest", "drain"} & set(options.only):
        _say("the broker warms up … ")
        count = min(GUARD.burst, options.sizes.burst)
        with kernel.told("off"):
            burst.measure(
                bootstrap, replace(options.sizes, burst=count, lead_s=min(GUARD.lead_s, options.sizes.lead_s))
            )
        kernel.taken(None)
        _say("done\n")


def _once(only: Sequence[str], sizes: Sizes, bootstrap: str, about: str) -> Figures:
    found: Figures = {}
    loops = [calibration.loop_s()]
    for experiment, names in EXPERIMENTS.items():
        wanted = [name for name in names if name in only]
        if not wanted:
            continue
        _say(f"{about} {', '.join(wanted)} … ")
        began = time.monotonic()
        try:
            figures = experiment(bootstrap, sizes)
        except (BaselineMissing, BaselineFailed) as missing:
            _say(f"left out. {missing}\n")
            continue
        found |= {group: values for group, values in figures.items() if group.split()[0] in wanted}
        loops.append(calibration.loop_s())
        _say(f"{time.monotonic() - began:.0f} s\n")
    loop_s = sorted(loops)[len(loops) // 2]
    return {**calibrated(found, loop_s), "calibration": {"loop_ms": loop_s * 1_000}}


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
