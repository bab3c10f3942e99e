"""More partitions on a real broker: killed at each stage, and each message is delivered once, by its last command."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from punctual.contract.home import home_partition
from punctual.contract.request import Request, encode
from tests.harness.kafka import now_ms, read
from tests.harness.repartition import KILLED, has_grown, repartition, report
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import Worker
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation
from tests.integration.test_jobs import given, over
from tests.integration.test_pause import await_paused, say

AFTER = 6
#: PUNCTUAL_LONG=1 runs it with each guarantee, and kills the command at every point; otherwise at some, at least once.
LONG = bool(os.environ.get("PUNCTUAL_LONG"))
#: Points at which it is killed in turn, and at which passing.
KILLS = {
    "at_least_once": [("note", 1), ("seal", 2), ("sealed", 2), ("batch", 5), ("check", 1), ("grow", 1), ("report", 1)],
    "exactly_once": [("noted", 1), ("sealed", 3), ("note", 2), ("batch", 2), ("note", 2), ("pass-on", 1), ("done", 1)],
}
if not LONG:
    KILLS = {"at_least_once": [("batch", 5), ("pass-on", 1)]}
REFUSED_AFTER = ("sealed", "check", "pass-on") if LONG else ("pass-on",)
Completed = subprocess.CompletedProcess[str]
IDS, PLAIN = 240, 60
#: The delay of a third of the messages; their destination is paused before and resumed in the end.
SOON_MS, LATER_MS = 2_500, 600_000


@pytest.fixture(params=list(KILLS))
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    with run("repartition", env=lambda _: {"DELAY_GUARANTEE": request.param}) as made:
        yield made


def test_each_message_is_delivered_once_by_its_last_order(installation: Installation) -> None:
    to, requests = installation.topic(), installation.requests
    say(installation, to, paused=True, reason="to see the pending messages")
    await_paused(installation, to)
    soon = now_ms() + SOON_MS
    _ask(installation, to, soon)
    early = _run(installation)
    assert (early.returncode, "1 worker(s) are in the group" in early.stderr) == (1, True), early.stderr
    installation.worker.stop()
    _abandoned(installation)
    forwarded = _left_on_its_way(installation, to)
    looked, all_ = report(_run(installation, "--dry-run")), IDS + PLAIN + 1
    assert (looked["state"], looked["rows"], looked["destinations"]) == ("ready", all_, {to: all_})
    assert looked["under_way"] == len(forwarded) == 10
    for number in range(0, IDS, 3):  # while no worker runs: the requests stay at the old homes
        requests.cancel(f"m{number}", partition=home_partition(f"m{number}", (), PARTITIONS))
    requests.flush()

    for point, hit in KILLS[installation.worker.env["DELAY_GUARANTEE"]]:
        said = _run(installation, crash_at=point, hit=hit)
        assert said.returncode == KILLED, (point, said.stderr[-2000:])
        if point in REFUSED_AFTER:
            _refuses(installation, f"Run `faust -A app repartition --to {AFTER}`")
    done = report(_run(installation))
    assert done["state"] == "done"
    assert sum(done["partitions"]) in (0, all_)  # the last kill came when all was done
    installation.worker.start()
    assert installation.worker.wait_dead() == 1
    assert f"Set DELAY_PARTITIONS={AFTER} and DELAY_REPARTITIONED=on" in installation.worker.log

    has_grown(installation.worker, AFTER)
    installation.worker.start().wait_ready()
    installation.await_event("cancelled", *(f"m{number}" for number in range(0, IDS, 3)))
    installation.await_event("accepted", *forwarded)
    plain = [record.source for record in read(installation.bootstrap, requests.topic) if record.value == b"plain"]
    new = [f"new{number}" for number in range(30)]
    for number, id_ in enumerate(new):  # offsets of the new forwards are small, and are named as larger than all before
        requests.schedule(id_, soon + LATER_MS, to, partition=number % PARTITIONS)
    requests.flush()
    installation.await_event("accepted", *new)
    for id_prefix, count in (("m", IDS // 3), ("new", len(new))):
        over(installation, given(installation, "deliver-now", count, {"id_prefix": id_prefix, "due_from": soon + 1}))
    for id_ in (*forwarded, *plain):
        requests.command("deliver-now", id_)
    requests.cancel("s")
    requests.flush()
    say(installation, to)
    wanted = [*new, *forwarded, *plain, *(f"m{number}" for number in range(IDS) if number % 3)]
    installation.wait_for(to, len(wanted), 40)
    time.sleep(2)
    got = list(read(installation.bootstrap, to))
    assert Counter(record.header("delay-id") for record in got) == Counter(wanted)
    assert min(record.timestamp_ms for record in got) >= soon


def _ask(installation: Installation, to: str, soon_ms: int) -> None:
    """Schedule messages with ids, most through a forward, some without ids, and a series; wait for all."""
    requests, later_ms = installation.requests, soon_ms + LATER_MS
    for number in range(IDS):  # many are due at the same moment
        due_ms = soon_ms if number % 3 == 1 else later_ms
        requests.schedule(f"m{number}", due_ms, to, b"%d" % number, partition=number % PARTITIONS)
    for number in range(PLAIN):
        requests.send({"delay-at": str(later_ms), "delay-to": to}, value=b"plain", partition=number % PARTITIONS)
    series = {"delay-id": "s", "delay-to": to, "delay-every": "PT1H", "delay-at": str(later_ms)}
    requests.send(series, b"s", b"series")
    requests.flush()
    for _ in range(10):
        requests.send({}, value=b"for nobody", partition=1)
    requests.flush()
    eventually(lambda: _pending(installation) == IDS + PLAIN + 1, what="all pending")
    installation.letters(10)


def _left_on_its_way(installation: Installation, to: str) -> list[str]:
    """Put on the forwards what workers have forwarded and not applied when they were stopped; return its ids.

    Their sources are dead letters: records that workers have read, without a destination.
    """
    topic, later_ms = installation.requests.topic, now_ms() + LATER_MS
    nobody = [one for one in read(installation.bootstrap, topic) if one.value == b"for nobody"]
    ids = [f"f{number}" for number in range(len(nobody))]
    for id_, record in zip(ids, nobody, strict=True):
        asked = Request("schedule", id_, record.source, now_ms(), topic, later_ms, to, None, b"on its way")
        home, forwards = home_partition(id_, (), PARTITIONS), f"{installation.app_id}-forwards"
        installation.requests.send({}, id_.encode(), encode(asked), partition=home, topic=forwards)
    installation.requests.flush()
    return ids


def _run(installation: Installation, *options: str, crash_at: str = "", hit: int = 1) -> Completed:
    asked = ("--format", "json", *options)
    return repartition(installation.worker, installation.bootstrap, *asked, to=AFTER, crash_at=crash_at, hit=hit)


def _abandoned(installation: Installation) -> None:
    """Begin, give up, and have a worker start as before; it goes on where it was, and is stopped again."""
    assert _run(installation, crash_at="check").returncode == KILLED
    assert report(_run(installation, "--abandon"))["state"] == "abandoned"
    if LONG:
        again = _run(installation, "--abandon")
        assert (again.returncode, "nothing to abandon" in again.stderr) == (1, True)
    installation.worker.start().wait_ready()
    installation.worker.stop()


def _refuses(installation: Installation, sentence: str) -> None:
    """Check that a worker does not start, whatever its number of partitions."""
    worker = installation.worker
    before = dict(worker.env)
    for env in ({}, {"DELAY_PARTITIONS": str(AFTER), "DELAY_REPARTITIONED": "on"}):
        worker.env = before | env
        worker.start()
        assert worker.wait_dead() == 1
        assert sentence in worker.log, worker.log[-2000:]
    worker.env = before


def _pending(installation: Installation) -> int:
    return sum(sum(report["pending"].values()) for report in installation.progress().values())


@pytest.mark.slow
def test_a_worker_that_was_paused_before_has_no_effect_afterwards(
    installation: Installation, tmp_path: Path, bootstrap: str
) -> None:
    to, paused, due_ms = installation.topic(), installation.worker, now_ms() + int(8_000 * crowd())
    ids = [f"z{number}" for number in range(60)]
    for id_ in ids:
        installation.requests.schedule(id_, due_ms, to)
    installation.requests.flush()
    eventually(lambda: _pending(installation) == len(ids), what="all pending")
    os.kill(paused.pid, signal.SIGSTOP)
    assert now_ms() < due_ms, "a message in flight may come twice: stop the worker before that"
    try:
        eventually(lambda: _run(installation).returncode == 0, what="the repartition")
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
