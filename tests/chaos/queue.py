"""`python -m tests.chaos.queue`: an acknowledged queue whose consumers forget messages and are killed.

The same messages are processed twice: with one worker, and with three workers that are killed one after the other.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from app.dev.broker import Broker
from tests.harness.kafka import ends
from tests.harness.queue_run import QueueRun, percentile
from tests.harness.worker import Worker

KILLS = 10
_DRAIN_S = 900


def main() -> int:
    """Run both, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.queue", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="messages")
    parser.add_argument("--rate", type=float, default=1_000, help="messages per second")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed")
    options = parser.parse_args()
    broken = False
    for workers in (1, 3):
        with tempfile.TemporaryDirectory(prefix="punctual-queue-") as directory, Broker() as broker:
            result = run(broker.bootstrap, Path(directory), options, workers)
        print(json.dumps(result), flush=True)
        broken |= bool(result["lost"] or result["early"])
    return broken


def run(bootstrap: str, directory: Path, options: argparse.Namespace, workers: int) -> dict[str, Any]:
    """Let the messages through, kill ten times, and count."""
    chance, app_id, count = random.Random(options.seed), f"queue-{workers}", options.count  # noqa: S311 - whom to kill
    began = time.monotonic()
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(Worker(bootstrap, app_id, directory / f"worker-{number}", partitions=8)).start()
            for number in range(workers)
        ]
        for worker in crowd:
            worker.wait_ready()
        queue = stack.enter_context(QueueRun(bootstrap, app_id, directory, count, timeout_s=5.0))
        writing = stack.enter_context(ThreadPoolExecutor(1)).submit(queue.produce, options.rate)
        for kill in range(KILLS):
            queue.await_more(count // (2 * KILLS))
            queue.kill_one(chance)
            if workers > 1 and kill % 3 == 1:
                _kill_worker(crowd, chance)
        writing.result()
        queue.finish(_DRAIN_S)
        return _result(queue, workers, time.monotonic() - began)


def _kill_worker(crowd: Sequence[Worker], chance: random.Random) -> None:
    victim = chance.choice(crowd)
    victim.kill()
    if chance.random() < 0.5:  # else it gets its partitions back at once
        time.sleep(8)
    victim.start()


def _result(queue: QueueRun, workers: int, seconds: float) -> dict[str, Any]:
    processed, back = queue.processed, queue.redeliveries()
    late = [record.timestamp_ms - int(record.header("delay-due")) for record in back]
    return {
        "messages": queue.count,
        "workers": workers,
        "consumers": queue.consumers,
        "kills of consumers": queue.kills,
        "lost": queue.count - len(processed),
        "processed twice or more": sum(times > 1 for times in processed.values()),
        "redeliveries": len(back),
        "on the topic": sum(ends(queue.bootstrap, queue.topic).values()),
        "early": sum(one < 0 for one in late),
        "late by ms: p50, p99, p99.9, most": [percentile(late, share) for share in (0.5, 0.99, 0.999, 1)],
        "within 1 s": sum(one <= 1_000 for one in late),
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    sys.exit(main())
