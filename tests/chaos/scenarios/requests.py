"""Unacceptable requests among good ones."""

import time
from collections import Counter

from tests.chaos.neighbours import Neighbours
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.harness.kafka import Requests, now_ms
from tests.harness.raw import send_nameless
from tests.harness.worker import Worker

#: Larger than the maximum of a default-size request in the changelog: 2 MiB. Brokers accept it because they check the
#: compressed size, which is small.
_OVERSIZED = 4 << 20
_NAMELESS = 20
_SETTLE_S = 5.0


@scenario("a tenth of all requests is poison of every kind, and a worker is killed now and then", ci=())
def poison(run: Run) -> None:
    workers = run.two_workers()
    sent: Counter[str] = Counter()
    with run.traffic(300) as traffic:
        time.sleep(_SETTLE_S)
        neighbours = Neighbours(run, run.outs)
        neighbours.before(run.sizes(4, 20))
        traffic.poison = 0.1
        worse(run, sent)
        neighbours.during(run.sizes(6, 20))
        for number in run.rounds(1, 8):
            worse(run, sent)
            again(run, workers[number % 2])
            worse(run, sent)
            neighbours.during(run.sizes(3, 20))
    for reason, count in sent.items():
        traffic.poisoned[reason] = traffic.poisoned.get(reason, 0) + count
    for reason, count in traffic.poisoned.items():
        run.did(f"poison: {reason}", count)


def again(run: Run, worker: Worker) -> None:
    """Kill a worker, start it again, and wait until the missed messages are delivered."""
    run.kill(worker)
    time.sleep(run.random.uniform(0, 1))
    worker.start()
    worker.wait_ready()
    time.sleep(_SETTLE_S)


def worse(run: Run, sent: Counter[str]) -> None:
    """Send requests that are too large, and some whose header names are no text."""
    large = {"compression.type": "lz4", "message.max.bytes": 2 * _OVERSIZED}
    requests = Requests(run.bootstrap, run.app_id, **large)
    requests.schedule(f"oversized-{sent['too-large']}", now_ms(), run.outs[0], b"-" * _OVERSIZED)
    requests.flush()
    where = run.random.randrange(run.partitions)
    send_nameless(run.bootstrap, requests.topic, where, run.outs[0], _NAMELESS)
    sent.update({"too-large": 1, "malformed": _NAMELESS})
