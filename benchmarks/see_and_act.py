"""`python -m benchmarks.see_and_act`: the cost to deliveries of reading pending messages and of changing all of them.

One worker holds pending messages, nine tenths of them for one destination, and delivers a stream to another. The
stream is measured in turns: alone, with constant requests for a page, and with searches through all messages. At the
end one job cancels the nine tenths during the stream, and all messages are counted.
"""

import argparse
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from benchmarks import topics
from benchmarks.alone import print_measured
from benchmarks.clock import now_ms, wait_for
from benchmarks.errors import PromiseBroken
from benchmarks.figures import spread
from benchmarks.installation import Installation

_VALUE = bytes(200)
_HOUR_MS = 3_600_000
_FILL_PER_S, _JOB_S = 2_000, 1_800
_TEN, _PAUSE_S = 10, 0.05


class Api:
    """A worker's API; how long each answer took is kept."""

    def __init__(self, url: str) -> None:
        self._url, self.took_ms = url, list[float]()

    def ask(self, path: str, body: object = None) -> Any:
        """Return an answer, which may take long."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})  # noqa: S310
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - our own worker
            raw = answer.read()
        self.took_ms.append((time.perf_counter() - began) * 1_000)
        return raw if not path.startswith("/api/") else json.loads(raw)


def main() -> int:
    """Measure, and print a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.see_and_act", description=__doc__)
    parser.add_argument("--pending", type=int, default=1_000_000, help="number of pending messages (%(default)s)")
    parser.add_argument("--rate", type=int, default=500, help="the stream's messages a second (%(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="seconds of each turn (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each kind (%(default)s)")
    parser.add_argument("--guarantee", default="at_least_once", help="the worker's")
    options = parser.parse_args()
    print_measured("see-and-act", options.guarantee, lambda here: _measure(here, options))
    return 0


def _measure(here: Installation, options: argparse.Namespace) -> dict[str, object]:
    api, count = Api(here.worker.url), options.pending
    topics.create(here.bootstrap, f"{here.app_id}-held", 1, 1)
    _fill(here, count)
    wait_for(lambda: api.ask("/api/v1/overview")["pending"] >= count, 60 + count // _FILL_PER_S, "Ingest")
    looks = {
        "alone": "",
        "page": "/",
        "find": "/api/v1/messages?limit=50&key=k-7",
        "search": "/api/v1/messages/count?seconds=60&key=none",
    }
    late: dict[str, list[int]] = {name: [] for name in looks}
    took: dict[str, list[float]] = {name: [] for name in looks}
    for _ in range(options.turns):
        for name, path in looks.items():
            asking = Api(here.worker.url)
            late[name] += _beside(here, options, asking, path)
            took[name] += asking.took_ms
    job, late["job"] = _job(here, options, api)
    return {
        "pending": count,
        "stream, a second": options.rate,
        "late, ms": {name: spread(values) for name, values in late.items()},
        "answers, ms": {name: spread(values) for name, values in took.items() if values},
        "job": job,
    }


def _fill(here: Installation, count: int) -> None:
    producer = Producer({"bootstrap.servers": here.bootstrap, "linger.ms": 20, "log_level": 0})
    due = now_ms() + 24 * _HOUR_MS
    for number in range(count):
        to = here.out if number % _TEN == 0 else f"{here.app_id}-held"
        headers = {"delay-to": to, "delay-id": f"m-{number}", "delay-at": str(due + number)}
        producer.produce(here.requests, _VALUE, b"k-%d" % (number % 100), headers=list(headers.items()))
        if not number % 1_000:
            producer.poll(0.02)
    assert not producer.flush(120)


def _beside(here: Installation, options: argparse.Namespace, api: Api, path: str) -> list[int]:
    """Deliver the stream while a reader loads `path`, if any; return each message's lateness."""
    over = threading.Event()

    def looking() -> None:
        while not over.wait(_PAUSE_S):
            if path:
                api.ask(path)

    looker = threading.Thread(target=looking)
    looker.start()
    try:
        return _stream(here, options, lambda begin: now_ms() > begin + options.seconds * 1_000)
    finally:
        over.set()
        looker.join()


def _stream(here: Installation, options: argparse.Namespace, over: Callable[[int], bool]) -> list[int]:
    """Ask for messages a second ahead at an even rate until it is over; return how late each was."""
    ends = topics.Ends(here.bootstrap)
    start, begin, sent = topics.ends(here.bootstrap, here.out), now_ms(), 0
    producer = Producer({"bootstrap.servers": here.bootstrap, "linger.ms": 5, "log_level": 0})
    while not over(begin):
        due = begin + 1_000 + sent * 1_000 // options.rate
        if due - 1_000 > now_ms():
            producer.poll(0.002)
            continue
        headers = [("delay-to", here.out), ("delay-at", str(due))]
        producer.produce(here.requests, _VALUE, headers=headers)
        sent += 1
    assert not producer.flush(60)
    wait_for(lambda: ends.total(here.out) - sum(start.values()) >= sent, 60, "The stream")
    ends.close()
    late = topics.late_ms(here.bootstrap, here.out, start)
    if len(late) != sent:
        raise PromiseBroken("see-and-act", [f"{len(late)} of {sent} of the stream were delivered"])
    return late


def _job(here: Installation, options: argparse.Namespace, api: Api) -> tuple[dict[str, object], list[int]]:
    """Cancel nine tenths by a filter during the stream."""
    held = options.pending - -(-options.pending // _TEN)
    began = time.monotonic()
    answer = api.ask("/api/v1/jobs", {"act": "cancel", "filter": {"to": f"{here.app_id}-held"}, "confirm": held})
    counted_s, job_id = time.monotonic() - began, answer["job"]["job_id"]
    standing: dict[str, Any] = {}
    took = 0.0
    looked_at_s = began

    def over(_: int) -> bool:
        nonlocal standing, took, looked_at_s
        if time.monotonic() - looked_at_s < 1.0:
            return False
        looked_at_s = time.monotonic()
        standing = api.ask(f"/api/v1/jobs/{job_id}")
        took = time.monotonic() - began
        return standing["state"] == "done" or took > _JOB_S

    late = _stream(here, options, over)
    count_after = api.ask("/api/v1/messages/count?seconds=60")
    expected_after = options.pending - held
    faults = []
    if standing["outcomes"] != {"cancelled": held}:
        faults.append(f"the job came to {standing['outcomes']}, not {held} cancelled")
    if (count_after["matching"], count_after["complete"]) != (expected_after, True):
        faults.append(f"{count_after} are left, not {expected_after}")
    if faults:
        raise PromiseBroken("see-and-act", faults)
    rate = round(held / (took - counted_s))
    return {"cancelled": held, "wrong": 0, "counted in, s": round(counted_s, 1), "a second": rate}, late


if __name__ == "__main__":
    sys.exit(main())
