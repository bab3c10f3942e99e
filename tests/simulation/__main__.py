"""`python -m tests.simulation`: runs many seeds on all cores, or one seed with a trace of its events."""

import argparse
import sys
import time

from tests.simulation.run import Result, processes, quickly, run, spread

_SHOW_EVERY = 50
#: So many failing seeds are shown whole; the rest by number.
_SHOWN = 5


def main() -> int:
    """Run the seeds of the command line; return the exit code."""
    options = _options()
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    return _many(range(options.first, options.first + options.seeds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first one (%(default)s)")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: show all requests, answers and faults")
    return parser.parse_args()


def _one(seed: int, *, trace: bool) -> int:
    with quickly():
        result = run(seed, trace=trace)
    for line in result.trace:
        print(line)
    print(result if result.troubles else f"seed {seed}: no errors")
    return bool(result.troubles)


def _many(seeds: range) -> int:
    total, failed, began, done = Result(0), list[Result](), time.monotonic(), 0
    try:
        with processes() as pool:
            for done, result in enumerate(spread(pool, seeds), 1):
                for name in ("workers", "crashes", "messages", "deliveries", "duplicates", "retold"):
                    setattr(total, name, getattr(total, name) + getattr(result, name))
                if result.troubles:
                    failed.append(result)
                    if len(failed) <= _SHOWN:
                        _progress("")
                        print(result, flush=True)
                if done % _SHOW_EVERY == 0 or done == len(seeds):
                    rate = done / (time.monotonic() - began)
                    _progress(f"{done:,} of {len(seeds):,} seeds, {rate:.0f} a second, {len(failed)} failed")
    except KeyboardInterrupt:
        _progress("")
        print("Stopped.")
    _progress("")
    print(
        f"{done:,} seeds from {seeds.start} on in {time.monotonic() - began:.0f} s: {total.workers:,} workers, "
        f"{total.crashes:,} crashed, {total.messages:,} messages, {total.deliveries:,} deliveries, "
        f"{total.duplicates:,} duplicates within bounds, {total.retold:,} endings told again otherwise"
    )
    if failed:
        print(f"{len(failed)} failed: {', '.join(str(result.seed) for result in failed)}")
    return bool(failed)


def _progress(line: str) -> None:
    """Show a line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
