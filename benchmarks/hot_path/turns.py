"""Turns: trees are measured one after the other, in short rounds, so that all meet the same disturbances."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import calibration
from benchmarks.hot_path.options import Sizes
from benchmarks.hot_path.process import Cost, Measured
from benchmarks.hot_path.tree import Tree

_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Turns:
    """The costs of the rounds, tree by tree, and the CPU of the calibration loop measured between them."""

    rounds: list[list[Cost]] = field(default_factory=list)
    loops_s: list[float] = field(default_factory=list)


def take_turns(trees: Sequence[Tree], directory: Path, sizes: Sizes) -> Turns:
    """Measure `trees` in turns; their files are under `directory`.

    Processes differ by a percent or so, as long as they live, by where their memory lies and how their hash tables
    fill: several pairs even that out.
    """
    turns = Turns()
    for pair in range(sizes.pairs):
        sys.stderr.write(f"{pair + 1}/{sizes.pairs} … ")
        sys.stderr.flush()
        turns.loops_s.append(calibration.loop_s())
        began = time.monotonic()
        turns.rounds.extend(_pair(trees, directory, sizes, pair))
        sys.stderr.write(f"{time.monotonic() - began:.0f} s\n")
    turns.loops_s.append(calibration.loop_s())
    return turns


def _pair(trees: Sequence[Tree], directory: Path, sizes: Sizes, seed: int) -> list[list[Cost]]:
    with ExitStack() as stack:
        processes = [stack.enter_context(Measured(tree, directory, sizes.messages, seed)) for tree in trees]
        for process in processes * _WARM_UP:
            process.measure()
        return [_round(processes, sizes.tries, number) for number in range(sizes.rounds)]


def _round(processes: Sequence[Measured], tries: int, number: int) -> list[Cost]:
    """Measure each process `tries` times, and return the minimum costs, because disturbances only add to them."""
    costs: list[list[Cost]] = [[] for _ in processes]
    order = list(zip(processes, costs, strict=True))
    for turn in range(number, number + tries):
        for process, its in order if turn % 2 else reversed(order):  # A B B A A B: neither always comes first
            its.append(process.measure())
    return [_least(its) for its in costs]


def _least(costs: Sequence[Cost]) -> Cost:
    return {name: min(cost.get(name, 0.0) for cost in costs) for name in costs[0]}
