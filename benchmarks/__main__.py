"""`python -m benchmarks`: measure, print, and save or compare if requested."""

import signal
import sys
from collections.abc import Sequence

from confluent_kafka import KafkaException

from app.dev.broker import BrokerError, broker_or_given
from benchmarks import comparison, machine, report
from benchmarks.errors import BenchmarkError
from benchmarks.options import Options, parse
from benchmarks.result import Result
from benchmarks.run import run

_INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """Run the benchmarks of the command line; return the exit code."""
    options = parse()
    for signal_ in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background jobs are started without it
        signal.signal(signal_, signal.default_int_handler)
    try:
        then = Result.load(options.against) if options.against else None
        machine_now = machine.look()
        if machine_now.busy:
            _say(f"The load average is {machine_now.load_before:g}: other work disturbs the measurement.")
        with broker_or_given() as bootstrap:
            results = run(options, bootstrap, machine_now)
    except (BenchmarkError, BrokerError, KafkaException) as error:
        _say("\n".join(["", str(error), *getattr(error, "__notes__", [])]))
        return 1
    except KeyboardInterrupt:
        _say("\nStopped; nothing is left running.")
        return _INTERRUPTED
    for result in results:
        print(report.heading(result), report.table(result), "", sep="\n\n")
    if len(results) > 1:
        without, with_kernel = results
        print(comparison.table(with_kernel, without, ("compiled", "Python")), end="\n\n")
    return _after(options, results, then)


def _after(options: Options, results: Sequence[Result], then: Result | None) -> int:
    """Save and compare the last one, which is with the native extension if both were measured; return the exit code."""
    now = results[-1]
    for result in results:
        if options.save:
            _say(f"Saved to {result.save(options.save)}")
    if then is None:
        return 0
    print("", comparison.table(now, then), sep="\n")
    for difference in comparison.differences(now, then):
        _say(f"Hard to compare: {difference}.")
    worse = comparison.slower(now.figures, then.figures)
    for sentence in worse:
        _say(f"Slower: {sentence}.")
    return 1 if worse else 0


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
