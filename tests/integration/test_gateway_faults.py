"""Kafka stops, Kafka and the gateway are killed, under load: acknowledged messages are delivered, once and in order."""

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from app.dev.broker.broker import Broker
from app.serve.messages.receipts import Receipts
from punctual import SyncDelayClient
from tests.harness.gateway import GatewayProcess
from tests.harness.gateway_load import Load
from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 4
_LONG = bool(os.environ.get("GATEWAY_CHAOS"))


class Plan(NamedTuple):
    """How long things last, and how often the gateway is killed in each of three times."""

    stopped_s: float
    down_s: float
    between_s: float
    kills: int


PLAN = Plan(60, 20, 5, 4) if _LONG else Plan(4, 1, 1.5, 1)


@contextmanager
def restarting(worker: Worker) -> Iterator[None]:
    """Start a worker again whenever it ends by itself, as a supervisor does."""
    over = threading.Event()

    def mind() -> None:
        while not over.wait(0.2):
            if worker.failed:
                worker.start()

    thread = threading.Thread(target=mind)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def killed(gateway: GatewayProcess, times: int, every_s: float) -> None:
    """Kill a gateway and start it again, `times` times."""
    for _ in range(times):
        time.sleep(every_s)
        gateway.kill()
        gateway.start()


def delivered(bootstrap: str, topic: str) -> dict[str, list[str]]:
    """Return the messages of each key in the order in which they were delivered."""
    found = defaultdict[str, list[str]](list)
    for record in read(bootstrap, topic):
        found[(record.key or b"").decode()].append((record.value or b"").decode())
    return dict(found)


def test_acknowledged_messages_are_delivered_once_and_in_order(tmp_path: Path) -> None:
    with Broker() as broker:
        app_id, bootstrap = "gw", broker.bootstrap
        out = create_topic(bootstrap, "out", 2)
        worker = Worker(bootstrap, app_id, tmp_path / "worker", partitions=PARTITIONS)
        gateway = GatewayProcess(bootstrap, app_id, tmp_path / "gateway", partitions=PARTITIONS)
        with ExitStack() as stack:
            stack.enter_context(worker)
            stack.enter_context(restarting(worker.start()))
            worker.wait_ready()  # there is a topic of requests by then
            stack.enter_context(gateway)
            client = stack.enter_context(SyncDelayClient(bootstrap, app_id=app_id))
            # The destination is paused until the end, so that a worker's own crash does not add duplicates.
            client.pause(out, reason="faults")
            eventually(lambda: worker.metric("delay_destination_paused", destination=out), what="the pause")
            ids = Receipts(f"{app_id}-requests", PARTITIONS)
            with Load(gateway.url, out, now_ms(), ids.id, keys=100, per_s=500) as load:
                time.sleep(PLAN.between_s)
                eventually(lambda: 201 in load.answers, what="a message that Kafka has taken")
                os.kill(broker.pid, signal.SIGSTOP)
                killed(gateway, PLAN.kills, PLAN.stopped_s / (PLAN.kills + 1))
                time.sleep(PLAN.stopped_s / (PLAN.kills + 1))
                gateway.wait_state("spooling")
                os.kill(broker.pid, signal.SIGCONT)
                killed(gateway, PLAN.kills, PLAN.between_s / 2)
                gateway.wait_state("up")
                time.sleep(PLAN.between_s)
                os.kill(broker.pid, signal.SIGKILL)
                broker.stop()
                killed(gateway, PLAN.kills, PLAN.down_s / PLAN.kills)
                broker.start()
                gateway.wait_state("up")
                time.sleep(PLAN.between_s)
            assert set(load.answers) == {201, 202}, load.answers
            eventually(lambda: not gateway.ready()["spool_records"], what="an empty spool")
            client.resume(out)
            eventually(lambda: sum(map(len, delivered(bootstrap, out).values())) >= load.count)
            time.sleep(1)
            assert delivered(bootstrap, out) == load.taken
            said = f"{load.count} acknowledged, {load.lost} requests without an answer, {load.longest_s:.1f} s at most"
            print(said, dict(load.answers))  # noqa: T201 - `make chaos NAME=gateway` shows it
