"""The options of the command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers: pairs of processes, rounds of a pair, tries of a round, messages of a try."""

    pairs: int = 10
    rounds: int = 6
    tries: int = 7
    messages: int = 2_000


@dataclass(frozen=True, slots=True)
class Options:
    """A run."""

    against: str | None
    limit_percent: float
    sizes: Sizes


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the process with code 2 if it makes no sense."""
    usual = Sizes()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hot_path",
        description="Measure the CPU of a message's way in and out on one thread, without Kafka.",
        epilog="DELAY_* variables apply to the measured code. Exit codes: 0 fine; 1 a way needs more CPU than allowed, "
        "or the run failed; 2 the command line is invalid.",
    )
    parser.add_argument("--against", metavar="COMMIT", help="take turns with the code of this commit, and compare")
    parser.add_argument(
        "--limit",
        type=float,
        default=2.0,
        metavar="PERCENT",
        help="code 1 if a message's way in or out certainly needs this much more CPU (default 2)",
    )
    parser.add_argument("--pairs", type=_count, default=usual.pairs, help="pairs of processes, one after the other")
    parser.add_argument("--rounds", type=_count, default=usual.rounds, help="rounds of each pair")
    parser.add_argument("--tries", type=_count, default=usual.tries, help="tries of a round; the cheapest counts")
    parser.add_argument("--messages", type=_count, default=usual.messages, help="messages of a try")
    options = parser.parse_args(arguments)
    return Options(
        options.against, options.limit, Sizes(options.pairs, options.rounds, options.tries, options.messages)
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
