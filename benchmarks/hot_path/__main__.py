"""`python -m benchmarks.hot_path`: measure, print, and compare if requested."""

import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.errors import BenchmarkError
from benchmarks.hot_path.options import Options, parse
from benchmarks.hot_path.ratio import ENOUGH
from benchmarks.hot_path.report import WAYS, heading, ratio_of, table
from benchmarks.hot_path.tree import ROOT, Tree, exported
from benchmarks.hot_path.turns import Turns, take_turns

_INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """Measure with the options of the command line; return the exit code."""
    options = parse()
    for signal_ in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background jobs are started without it
        signal.signal(signal_, signal.default_int_handler)
    machine_now = machine.look()
    if machine_now.busy:
        _say(f"The load average is {machine_now.load_before:g}: other work disturbs the measurement.")
    try:
        with tempfile.TemporaryDirectory(prefix="punctual-hot-path-") as directory:
            turns = _measure(options, Path(directory))
    except BenchmarkError as error:
        _say(f"\n{error}")
        return 1
    except KeyboardInterrupt:
        _say("\nStopped; nothing is left running.")
        return _INTERRUPTED
    print(heading(machine_now, options.against), table(turns), sep="\n\n")
    return _judged(turns, options.limit_percent) if options.against else 0


def _measure(options: Options, directory: Path) -> Turns:
    trees = [Tree(ROOT)]
    if options.against:
        then = directory / "then"
        then.mkdir()
        trees.append(exported(options.against, then))
    return take_turns(trees, directory, options.sizes)


def _judged(turns: Turns, limit_percent: float) -> int:
    """Print the ways that have become more expensive than allowed; return the exit code."""
    if len(turns.rounds) < ENOUGH:
        _say(f"Fewer than {ENOUGH} rounds are too few for a verdict.")
        return 0
    ratios = {way: ratio_of(turns, way) for way in WAYS}
    worse = [way for way, ratio in ratios.items() if ratio is not None and ratio.low > 1 + limit_percent / 100]
    for way in worse:
        _say(f"Slower: a message's way {way} needs more than {limit_percent:g} % more CPU.")
    return 1 if worse else 0


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
