"""`python -m benchmarks.recurring`: a hundred thousand schedules, each due once a minute, on one worker.

The schedules are spread evenly over the minute. Each delivery writes the next occurrence. The benchmark checks that
every planned occurrence was delivered exactly once.
"""

import argparse
import sys
import time
from collections import Counter

from confluent_kafka import Producer

from benchmarks import topics
from benchmarks.alone import print_measured
from benchmarks.clock import now_ms, wait_for
from benchmarks.errors import PromiseBroken
from benchmarks.figures import spread
from benchmarks.installation import Installation
from benchmarks.meter import Meter

_VALUE = bytes(200)
#: How many schedules are accepted a second, and the time limit of the deliveries after the last due time.
_TAKEN_PER_S, _AFTER_S = 2_500, 60


def main() -> int:
    """Measure, and print a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recurring", description=__doc__)
    parser.add_argument("--schedules", type=int, default=100_000, help="number of schedules (%(default)s)")
    parser.add_argument("--every", type=int, default=60, metavar="S", help="seconds between occurrences (%(default)s)")
    parser.add_argument("--times", type=int, default=3, help="occurrences of each (%(default)s)")
    parser.add_argument("--guarantee", default="at_least_once", help="the worker's")
    options = parser.parse_args()
    times = options.schedules, options.every * 1_000, options.times
    print_measured("recurring", options.guarantee, lambda here: _measure(here, *times))
    return 0


def _measure(here: Installation, count: int, every_ms: int, times: int) -> dict[str, object]:
    ends = topics.Ends(here.bootstrap)
    warm = ends.total(here.out)
    begin = now_ms() + 10_000 + count * 1_000 // _TAKEN_PER_S
    producer = Producer({"bootstrap.servers": here.bootstrap, "linger.ms": 20, "log_level": 0})
    for number in range(count):
        headers = {
            "delay-to": here.out,
            "delay-id": f"s-{number}",
            "delay-every": str(every_ms),
            "delay-at": str(begin + number * every_ms // count),
            "delay-count": str(times),
        }
        producer.produce(here.requests, _VALUE, b"s-%d" % number, headers=list(headers.items()))
        if not number % 1_000:
            producer.poll(0.05)
    assert not producer.flush(60)
    end = begin + every_ms * times
    with Meter(*here.pids) as meter:
        time.sleep(max(0.0, (end - now_ms()) / 1_000))
        wait_for(lambda: ends.total(here.out) - warm >= count * times, _AFTER_S, "The last delivery")
        cpu_s = meter.cpu_between(begin, end)
    ends.close()
    lateness_ms, occurrences = list[int](), Counter[tuple[str, int]]()
    for message in topics.read(here.bootstrap, here.out):
        message_headers = dict(message.headers())
        id_, due_ms = message_headers["delay-id"].decode(), int(message_headers["delay-due"])
        if "@" in id_:
            occurrences[id_, due_ms] += 1
            lateness_ms.append(message.timestamp()[1] - due_ms)
    firsts = ((f"s-{number}", begin + number * every_ms // count) for number in range(count))
    dues = ((id_, first_ms + turn * every_ms) for id_, first_ms in firsts for turn in range(times))
    _check(occurrences, {(f"{id_}@{due_ms}", due_ms) for id_, due_ms in dues})
    return {
        "schedules": count,
        "occurrences": len(lateness_ms),
        "a second": round(count * 1_000 / every_ms),
        "late": spread(lateness_ms),
        "CPU s per 30,000": round(cpu_s / len(lateness_ms) * 30_000, 1),
        "CPU, of one core": round(cpu_s * 1_000 / (every_ms * times), 2),
    }


def _check(occurrences: Counter[tuple[str, int]], planned: set[tuple[str, int]]) -> None:
    counts = {
        "are lost": len(planned - occurrences.keys()),
        "are not planned": len(occurrences.keys() - planned),
        "came twice": sum(times > 1 for times in occurrences.values()),
    }
    faults = [f"{count} {fault}" for fault, count in counts.items() if count]
    if faults:
        raise PromiseBroken("recurring", faults)


if __name__ == "__main__":
    sys.exit(main())
