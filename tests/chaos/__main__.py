"""`python -m tests.chaos`: expose installations to faults, and account for every message."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.dev.broker import Broker
from tests.chaos import report
from tests.chaos.ground import Clusters
from tests.chaos.scenario import GUARANTEES, Scenario, scenarios


def main() -> int:
    """Run the scenarios of the command line; return the exit code."""
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [one for one in scenarios() if not options.only or one.name in options.only]
    unknown = set(options.only) - {one.name for one in chosen}
    if unknown or options.list:
        print(*(f"{one.name:24} {one.title}" for one in scenarios()), sep="\n")
        return 2 if unknown else 0
    broken = 0
    with Clusters() as clusters:
        for one in chosen:
            for guarantee in one.guarantees:
                if options.guarantee in (None, guarantee):
                    broken += not _run(one, clusters.of(one.brokers), guarantee, options)
    return 1 if broken else 0


def _run(one: Scenario, cluster: list[Broker], guarantee: str, options: argparse.Namespace) -> bool:
    print(f"{one.name}, {guarantee}: {one.title}", flush=True)
    with tempfile.TemporaryDirectory(prefix="punctual-chaos-") as directory:
        result = one.run(cluster, Path(directory), guarantee, seed=options.seed, short=options.short)
    print(f"  {_line(result)}", *(f"  {sentence}" for sentence in result["faults"]), sep="\n", flush=True)
    if options.save:
        report.save(result)
    return not result["faults"]


def _line(result: dict[str, Any]) -> str:
    done = ", ".join(f"{times} {what}" for what, times in result["done"].items())
    named = ("messages", *report.ZERO, "duplicates", "double_endings")
    counts = ", ".join(f"{result[name]} {name.replace('_', ' ')}" for name in named)
    also = "".join(f", {name} {value}" for name, value in result["measured"].items())
    return (
        f"{done}: {counts}, p99 {result['p99_ms']} ms, longest {result['longest_ms']} ms{also}, {result['seconds']} s"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these scenarios alone")
    parser.add_argument("--guarantee", choices=GUARANTEES, help="this guarantee alone")
    parser.add_argument("--short", action="store_true", help="the form that runs with the tests")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is chosen at random")
    parser.add_argument(
        "--save", action="store_true", help="keep the results, and write them into docs/explanation/test-results.md"
    )
    parser.add_argument("--list", action="store_true", help="say what there is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
