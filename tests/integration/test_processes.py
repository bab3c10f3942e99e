"""A worker of several processes: killed ones are started again, they end with their parent, and no message is lost."""

import os
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.harness.account import Account
from tests.harness.deliveries import Deliveries, Expected
from tests.harness.kafka import Requests, create_topic, now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker
from tests.integration.installation import new_app_id, topics_removed, wait_for

COUNT, STEP_MS = 800, 10


def children(worker: Worker) -> list[int]:
    """Return the pids of the processes of a worker."""
    path = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    return [int(pid) for pid in path.read_text("ascii").split()]


def alive(pid: int) -> bool:
    """Return whether there is such a process, and it has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks into Linux' /proc")
def test_killed_processes_and_a_killed_parent_lose_no_message(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("processes")
    to, expected, requests = create_topic(bootstrap, f"{app_id}-to", 2), Expected(), Requests(bootstrap, app_id)
    env = {"DELAY_PROCESSES": "2"}
    with topics_removed(bootstrap, app_id), Worker(bootstrap, app_id, tmp_path / "data", env=env) as worker:
        worker.start().wait_ready()
        first, second = children(worker)
        begin = now_ms() + 500
        for number in range(COUNT):
            expected.schedule(requests, f"m-{number}", begin + STEP_MS * number, to)
        requests.flush()

        wait_for(bootstrap, to, COUNT // 8)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: len(set(children(worker)) - {first}) == 2, what="another process in its place")
        worker.wait_ready()
        assert second in children(worker)
        eventually(
            lambda: worker.metric("delay_process_restarts_total", process="1") == 1, what="the count of restarts"
        )
        eventually(lambda: shares(worker) == {"1": 2, "2": 2}, what="two partitions each")

        left = children(worker)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait_dead()
        eventually(lambda: not any(map(alive, left)), what="the end of the processes without their parent")

        worker.start().wait_ready()
        wait_for(bootstrap, to, COUNT, 40)
        Deliveries.read(bootstrap, to).check(expected, duplicates=COUNT)
        Account.settled(bootstrap, app_id)
        left = children(worker)
        worker.terminate()
        assert worker.wait_dead(15) == 0
        assert not any(map(alive, left))


def shares(worker: Worker) -> dict[str, int]:
    """Return how many partitions each process has, by the metrics."""
    found = {"1": 0, "2": 0}
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
        for line in answer.read().decode().splitlines():
            if line.startswith("delay_partition_owner_info{"):
                found[line.partition('process="')[2][0]] += 1
    return found


def test_an_error_of_all_processes_ends_the_worker(bootstrap: str, tmp_path: Path) -> None:
    env = {"DELAY_PROCESSES": "2", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with Worker(bootstrap, new_app_id("processes"), tmp_path / "data", env=env) as worker:
        worker.start()

        assert worker.wait_dead(60) == 1
        assert "Kafka at 127.0.0.1:1 cannot be used" in worker.log
