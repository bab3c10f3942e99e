"""The measurements as tables."""

import statistics

from benchmarks.hot_path.ratio import Ratio, ratio
from benchmarks.hot_path.stages import STAGES
from benchmarks.hot_path.turns import Turns
from benchmarks.machine import Machine
from benchmarks.report import aligned

WAYS = ("in", "out")
_NAMES = [name for way in WAYS for name in (way, *(f"{way} {stage}" for stage in (*STAGES, "rest")))]


def heading(machine: Machine, against: str | None) -> str:
    """Return one line with the date, the commits and the machine."""
    commit = f"commit {machine.commit}, " if machine.commit else ""
    beside = f"beside {against}, " if against else ""
    return f"{machine.date}, {commit}{beside}{machine.cores} cores, {machine.python}"


def table(turns: Turns) -> str:
    """Return a table of each stage's CPU in microseconds and calibration loops, with any other tree's."""
    rows = [["", "µs/message", "loops/million"]]
    compared = len(turns.rounds[0]) > 1
    if compared:
        rows[0] += ["then, µs", "ratio", "95 % between"]
    for name in _NAMES:
        if all(name not in cost for cost in turns.rounds[0]):
            continue
        now = _median(turns, name, 0)
        row = [name, _rounded(now, 2), _rounded(now / statistics.median(turns.loops_s), 1)]
        if compared:
            row += [_rounded(_median(turns, name, 1), 2), *_bounded(ratio_of(turns, name))]
        rows.append(row)
    return aligned(rows, right=range(1, 5))


def ratio_of(turns: Turns, name: str) -> Ratio | None:
    """Return the ratio of a stage now and then, None if one of the trees doesn't have it."""
    pairs = [(now[name], then[name]) for now, then in turns.rounds if now.get(name) and then.get(name)]
    return ratio(*zip(*pairs, strict=True)) if pairs else None


def _median(turns: Turns, name: str, tree: int) -> float:
    return statistics.median(costs[tree].get(name, 0.0) for costs in turns.rounds)


def _rounded(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value else "-"


def _bounded(ratio: Ratio | None) -> tuple[str, str]:
    if ratio is None:
        return "-", ""
    return _rounded(ratio.median, 3), f"{ratio.low:.3f} … {ratio.high:.3f}"
