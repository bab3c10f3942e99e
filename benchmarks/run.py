"""A run of experiments."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import calibration, kernel, machine
from benchmarks.errors import BaselineFailed, BaselineMissing
from benchmarks.experiments import BESIDE, EXPERIMENTS, Experiment, baselines, burst
from benchmarks.figures import Figures, calibrated, medians
from benchmarks.installation import worker_settings
from benchmarks.options import Options
from benchmarks.result import Result
from benchmarks.sizes import GUARD


def run(options: Options, bootstrap: str, where: machine.Machine) -> list[Result]:
    """Run the chosen experiments `options.runs` times; return a result for each path of the workers.

    With both paths they take turns, experiment by experiment; other systems are measured once a run, and are in the
    last of the results.

    Raises BenchmarkError if a run gives no result: something was lost or early, or a process failed.
    """
    _warm_up(options, bootstrap)
    runs = [_Run(options, bootstrap, number) for number in range(1, options.runs + 1)]
    for one in runs:
        one.measure()
    return [
        Result(
            machine=where,
            sizes=options.sizes,
            settings=worker_settings(),
            kernel=runs[-1].took.get(path) or path,
            figures=medians(one.figures[path] for one in runs),
            runs=[one.figures[path] for one in runs],
        )
        for path in options.kernels
    ]


def _warm_up(options: Options, bootstrap: str) -> None:
    """Warm the broker up by a burst if the chosen experiments do not: it is slow until its code is compiled."""
    if set(options.only) & set(BESIDE) and not {"ingest", "drain"} & set(options.only):
        _say("the broker warms up … ")
        count, lead_s = min(GUARD.burst, options.sizes.burst), min(GUARD.lead_s, options.sizes.lead_s)
        burst.measure(bootstrap, replace(options.sizes, burst=count, lead_s=lead_s))
        kernel.take_reported()
        _say("done\n")


class _Run:
    """Each experiment once, on each path."""

    def __init__(self, options: Options, bootstrap: str, number: int) -> None:
        self._options, self._bootstrap, self._number = options, bootstrap, number
        self.figures: dict[kernel.Kernel | None, Figures] = {path: {} for path in options.kernels}
        self.took: dict[kernel.Kernel | None, kernel.Kernel] = {}

    def measure(self) -> None:
        """Run the chosen experiments, and calibrate the figures."""
        loops = [calibration.loop_s()]
        for experiment, names in EXPERIMENTS.items():
            chosen_names = [name for name in names if name in self._options.only]
            for path in self._paths(chosen_names):
                self._take(experiment, chosen_names, path)
                loops.append(calibration.loop_s())
        loop_s = sorted(loops)[len(loops) // 2]
        for path, figures in self.figures.items():
            self.figures[path] = {**calibrated(figures, loop_s), "calibration": {"loop_ms": loop_s * 1_000}}

    def _paths(self, names: Sequence[str]) -> Sequence[kernel.Kernel | None]:
        every = self._options.kernels
        if not names:
            return ()
        if names[0] in baselines.NAMES:
            return every[-1:]
        return every if self._number % 2 else every[::-1]  # alternating, so that neither path always comes later

    def _take(self, experiment: Experiment, names: Sequence[str], path: kernel.Kernel | None) -> None:
        path_label = f", native extension {path}" if path and names[0] not in baselines.NAMES else ""
        _say(f"{self._number}/{self._options.runs} {', '.join(names)}{path_label} … ")
        began = time.monotonic()
        try:
            with kernel.require(path):
                figures = experiment(self._bootstrap, self._options.sizes)
        except (BaselineMissing, BaselineFailed) as missing:
            _say(f"left out. {missing}\n")
            return
        reported_path = kernel.take_reported()
        if reported_path is not None:
            self.took[path] = reported_path
        self.figures[path] |= {group: values for group, values in figures.items() if group.split()[0] in names}
        _say(f"{time.monotonic() - began:.0f} s\n")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
