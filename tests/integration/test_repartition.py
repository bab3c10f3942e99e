"""More partitions on a real broker: killed at each stage, and each message is delivered once, by its last order."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from punctual.contract.home import home_partition
from tests.harness.kafka import now_ms, read
from tests.harness.repartition import KILLED, has_grown, repartition, report
from tests.harness.worker import Worker, eventually
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

AFTER = 6
#: Points at which the command is killed in turn, and at which passing: all of them, one guarantee after the other.
KILLS = {
    "at_least_once": [("note", 1), ("seal", 2), ("sealed", 2), ("batch", 5), ("check", 1), ("grow", 1), ("report", 1)],
    "exactly_once": [("noted", 1), ("sealed", 3), ("note", 1), ("batch", 2), ("note", 1), ("pass-on", 1), ("done", 1)],
}
Completed = subprocess.CompletedProcess[str]
REFUSED_AFTER = ("sealed", "check", "pass-on")
IDS, PLAIN = 240, 60
#: When a third is due: long enough for the workers to be stopped before.
SOON_MS = 20_000


@pytest.fixture(params=["at_least_once", "exactly_once"])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    with run("repartition", env=lambda _: {"DELAY_GUARANTEE": request.param}) as made:
        yield made


def test_each_message_is_delivered_once_by_its_last_order(installation: Installation) -> None:
    to, requests, soon, later = installation.topic(), installation.requests, now_ms() + SOON_MS, now_ms() + 600_000
    for number in range(IDS):  # due at the same moment, most of them by way of a forward
        due_ms = soon if number % 3 == 1 else later
        requests.schedule(f"m{number}", due_ms, to, b"%d" % number, partition=number % PARTITIONS)
    for number in range(PLAIN):
        requests.send({"delay-at": str(later), "delay-to": to}, value=b"plain", partition=number % PARTITIONS)
    requests.send({"delay-id": "s", "delay-to": to, "delay-every": "PT1H", "delay-at": str(later)}, b"s", b"series")
    requests.flush()
    eventually(lambda: _pending(installation) == IDS + PLAIN + 1, 30, "all pending")

    early = repartition(installation.worker, installation.bootstrap, "--format", "json", to=AFTER)
    assert (early.returncode, "1 worker(s) are in the group" in early.stderr) == (1, True), early.stderr
    installation.worker.stop()
    looked = report(_run(installation, "--dry-run"))
    assert (looked["state"], looked["rows"], looked["destinations"]) == (
        "ready",
        IDS + PLAIN + 1,
        {to: IDS + PLAIN + 1},
    )
    for number in range(0, IDS, 3):  # while nobody works: they stand where old homes are
        requests.cancel(f"m{number}", partition=home_partition(f"m{number}", (), PARTITIONS))
    requests.flush()

    for point, hit in KILLS[installation.worker.env["DELAY_GUARANTEE"]]:
        said = _run(installation, crash_at=point, hit=hit)
        assert said.returncode == KILLED, (point, said.stderr[-2000:])
        if point in REFUSED_AFTER:
            _refuses(installation)
    done = report(_run(installation))
    assert done["state"] == "done"
    assert sum(done["partitions"]) in (0, IDS + PLAIN + 1)  # the last kill came when all was done

    installation.worker.start()
    assert installation.worker.wait_dead() == 1
    assert f"Set DELAY_PARTITIONS={AFTER} and DELAY_REPARTITIONED=on" in installation.worker.log
    has_grown(installation.worker, AFTER)
    installation.worker.start().wait_ready()
    left = [f"m{number}" for number in range(IDS) if number % 3]
    installation.await_event("cancelled", *(f"m{number}" for number in range(0, IDS, 3)))
    for number in range(2, IDS, 3):
        requests.command("deliver-now", f"m{number}", partition=number % AFTER)
    for record in read(installation.bootstrap, requests.topic):
        if record.value == b"plain":
            requests.command("deliver-now", record.source)
    requests.cancel("s")
    requests.flush()
    installation.wait_for(to, len(left) + PLAIN, 40)
    time.sleep(2)
    got = Counter(record.header("delay-id") for record in read(installation.bootstrap, to))
    assert got == Counter(left) + Counter({key: 1 for key in got if key.startswith(requests.topic)})
    assert len(got) == len(left) + PLAIN
    assert min(record.timestamp_ms for record in read(installation.bootstrap, to)) >= soon


def _run(installation: Installation, *options: str, crash_at: str = "", hit: int = 1) -> Completed:
    asked = ("--format", "json", *options)
    return repartition(installation.worker, installation.bootstrap, *asked, to=AFTER, crash_at=crash_at, hit=hit)


def _refuses(installation: Installation) -> None:
    """See that a worker does not start, whatever its number of partitions."""
    worker = installation.worker
    before = dict(worker.env)
    for env in ({}, {"DELAY_PARTITIONS": str(AFTER), "DELAY_REPARTITIONED": "on"}):
        worker.env = before | env
        worker.start()
        assert worker.wait_dead() == 1
        assert f"Run `faust -A app repartition --to {AFTER}`" in worker.log, worker.log[-2000:]
    worker.env = before


def _pending(installation: Installation) -> int:
    return sum(sum(report["pending"].values()) for report in installation.progress().values())


@pytest.mark.slow
def test_a_worker_that_was_paused_before_does_nothing_afterwards(
    installation: Installation, tmp_path: Path, bootstrap: str
) -> None:
    to, paused, due_ms = installation.topic(), installation.worker, now_ms() + 8_000
    ids = [f"z{number}" for number in range(60)]
    for id_ in ids:
        installation.requests.schedule(id_, due_ms, to)
    installation.requests.flush()
    eventually(lambda: _pending(installation) == len(ids), 30, "all pending")
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        eventually(lambda: _run(installation).returncode == 0, 40, "the repartition")
        with Worker(bootstrap, paused.app_id, tmp_path / "next", env=paused.env) as worker:
            has_grown(worker, AFTER)
            worker.start().wait_ready()
            installation.wait_for(to, len(ids), 40)
            os.kill(paused.pid, signal.SIGCONT)
            assert paused.wait_dead() != 0
            time.sleep(2)
            assert Counter(record.header("delay-id") for record in read(bootstrap, to)) == Counter(ids)
            paused.start()
            assert paused.wait_dead() == 1
            assert f"Set DELAY_PARTITIONS={AFTER}" in paused.log
    finally:
        if paused.alive:
            os.kill(paused.pid, signal.SIGCONT)
