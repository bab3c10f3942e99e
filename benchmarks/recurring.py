"""`python -m benchmarks.recurring`: many recurring messages on one worker: how many come a minute, and how late.

Their first occurrences are spread over a minute, half of them by an interval and half by a cron schedule in a zone.
"""

import argparse
import json
import sys
import time
from collections import Counter

from confluent_kafka import Consumer, Producer

from app.embedded import Broker
from benchmarks import topics
from benchmarks.calibration import loop_s
from benchmarks.clock import now_ms, wait_for
from benchmarks.installation import Installation
from benchmarks.meter import Meter

_MINUTE_MS = 60_000


def main() -> int:
    """Measure, and print a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recurring", description=__doc__)
    parser.add_argument("--series", type=int, default=100_000, help="recurring messages, each once a minute")
    parser.add_argument("--minutes", type=int, default=3, help="that are looked at, after the first one")
    options = parser.parse_args()
    with Broker() as broker, Installation(broker.bootstrap, "recurring") as here:
        # All are taken in before the first one is due: a minute for each 100,000.
        begin = (now_ms() // _MINUTE_MS + 2 + options.series // 100_000) * _MINUTE_MS
        _ask(here, options.series, begin)
        _wait_taken(here, options.series)
        taken_s = (begin - now_ms()) / 1_000
        since, until = begin + _MINUTE_MS, begin + (1 + options.minutes) * _MINUTE_MS
        with Meter(*here.pids) as meter:
            while now_ms() < until + 2_000:
                time.sleep(0.5)
            cpu_s = meter.cpu_between(since, until)
        late = _late(here, since, until)
    ordered = sorted(late)
    figures = {
        "series": options.series,
        "taken in before the first was due, s": round(taken_s, 1),
        "expected in the time": options.series * options.minutes,
        "delivered, each once": len(ordered),
        "late, ms: median, p99, most": [ordered[len(ordered) * n // 1_000] for n in (500, 990)] + ordered[-1:],
        "CPU seconds a minute": round(cpu_s / options.minutes, 1),
        "calibration, ms": round(loop_s() * 1_000, 1),
    }
    print(json.dumps(figures, indent=1))
    return 0


def _ask(here: Installation, series: int, begin: int) -> None:
    producer = Producer({"bootstrap.servers": here.bootstrap, "linger.ms": 20, "acks": "all", "log_level": 0})
    for number in range(series):
        at = begin + number * _MINUTE_MS // series
        said = {"delay-every": "PT1M"} if number % 2 else {"delay-cron": _cron(at), "delay-zone": "Europe/Berlin"}
        headers = {"delay-to": here.out, "delay-id": f"s{number}", "delay-at": str(at), **said}
        producer.produce(here.requests, b"tick", f"s{number}".encode(), headers=headers)
        if not number % 1_000:
            producer.poll(0.05)
    producer.flush(120)


def _wait_taken(here: Installation, series: int) -> None:
    committed = topics.Committed(here.bootstrap, here.app_id, here.requests)
    try:
        wait_for(lambda: committed.total() >= here.sent + series, _MINUTE_MS / 1_000 * 10, "Taking in all series")
    finally:
        committed.close()


def _cron(at: int) -> str:
    return f"{at // 1_000 % 60} * * * * *"


def _late(here: Installation, since: int, until: int) -> list[int]:
    """Return how late each occurrence was that was due in a time, from the brokers' stamps; each is there once."""
    consumer = Consumer({"bootstrap.servers": here.bootstrap, "group.id": "late", "auto.offset.reset": "earliest"})
    consumer.subscribe([here.out])
    late, seen, empty = list[int](), Counter[bytes](), 0
    while empty < 3:
        messages = consumer.consume(10_000, 2.0)
        empty = 0 if messages else empty + 1
        for message in messages:
            headers = dict(message.headers() or [])
            due = int(headers["delay-due"])
            if since <= due < until and b"@" in headers["delay-id"]:
                seen[headers["delay-id"]] += 1
                late.append(message.timestamp()[1] - due)
    consumer.close()
    assert set(seen.values()) == {1}, "an occurrence has come twice"
    return late


if __name__ == "__main__":
    sys.exit(main())
