"""A run of experiments."""

import sys
import time

from benchmarks import calibration, machine
from benchmarks.errors import BaselineFailed, BaselineMissing
from benchmarks.experiments import EXPERIMENTS
from benchmarks.figures import Figures, calibrated, medians
from benchmarks.installation import worker_settings
from benchmarks.options import Options
from benchmarks.result import Result


def run(options: Options, bootstrap: str, where: machine.Machine) -> Result:
    """Run what is wanted, so many times, and return the result.

    Raises BenchmarkError if a run gives no result: something was lost or early, or a process failed.
    """
    runs = [_once(options, bootstrap, number) for number in range(1, options.runs + 1)]
    return Result(machine=where, sizes=options.sizes, settings=worker_settings(), figures=medians(runs), runs=runs)


def _once(options: Options, bootstrap: str, number: int) -> Figures:
    found: Figures = {}
    loops = [calibration.loop_s()]
    for experiment, names in EXPERIMENTS.items():
        wanted = [name for name in names if name in options.only]
        if not wanted:
            continue
        _say(f"{number}/{options.runs} {', '.join(wanted)} … ")
        began = time.monotonic()
        try:
            figures = experiment(bootstrap, options.sizes)
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
