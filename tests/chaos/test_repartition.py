"""A million messages from 16 to 24 partitions, with kills: `make chaos NAME=repartition`.

REPARTITION_MESSAGES is the number of messages, REPARTITION_KILLS the number of kills of the command, at any moment, and
REPARTITION_DUE_S the time in seconds until the first messages are due. The log has the command's report.
"""

import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.kafka import now_ms, read
from tests.harness.repartition import has_grown, repartition, report, settings
from tests.harness.waiting import eventually
from tests.harness.worker import Worker
from tests.integration.installation import Installation, running

log = logging.getLogger(__name__)

MESSAGES = int(os.environ.get("REPARTITION_MESSAGES", "0"))
KILLS = int(os.environ.get("REPARTITION_KILLS", "6"))
DUE_S = int(os.environ.get("REPARTITION_DUE_S", "600"))
#: Over how long they are due.
SPREAD_MS = 60_000
BEFORE, AFTER = 16, 24
#: As many as the producer's buffer takes, and some less.
_AT_ONCE = 50_000

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(not MESSAGES, reason="REPARTITION_MESSAGES is not set: make chaos NAME=repartition"),
]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_none_is_lost_early_or_doubled(bootstrap: str, tmp_path: Path, guarantee: str) -> None:
    env = {"DELAY_GUARANTEE": guarantee}
    with running(bootstrap, tmp_path, "volume", env=lambda _: env, partitions=BEFORE, balanced=False) as installation:
        to, first_ms = installation.topic(8), now_ms() + DUE_S * 1_000
        _ask(installation, to, first_ms)
        eventually(lambda: _pending(installation) == MESSAGES, 600, f"{MESSAGES:,} pending")
        installation.worker.stop()
        assert now_ms() < first_ms, "REPARTITION_DUE_S is too short for this machine"

        began = time.monotonic()
        for number in range(KILLS):
            _killed(installation, bootstrap, random.uniform(1.5, 12))  # noqa: S311 - any moment
            log.info("killed %d times", number + 1)
        done = report(repartition(installation.worker, bootstrap, "--format", "json", to=AFTER, seconds=1_200))
        log.info("%s: done %.1f s after the first of %d kills: %s", guarantee, time.monotonic() - began, KILLS, done)
        assert sum(done["partitions"]) in (0, MESSAGES)

        has_grown(installation.worker, AFTER)
        installation.worker.start()
        second = Worker(bootstrap, installation.app_id, tmp_path / "second", partitions=AFTER)
        second.env = installation.worker.env
        with second:
            second.start()
            ready = eventually(lambda: installation.worker.ready()[0] and second.ready()[0], 300, "workers")
            log.info("workers were ready after %.1f s", ready)
            last_ms = first_ms + SPREAD_MS
            eventually(lambda: _pending(installation) == 0, max(0, last_ms - now_ms()) / 1_000 + 600, "all sent")
        _judge(bootstrap, to)


def _ask(installation: Installation, to: str, first_ms: int) -> None:
    """Schedule all messages: half have ids, and a fifth of the ids are sent to a partition other than their home."""
    requests = installation.requests
    for number in range(MESSAGES):
        due_ms = first_ms + number * 7_919 % SPREAD_MS
        value = b"%d" % due_ms
        if number % 2:
            astray = number % BEFORE if number % 10 == 1 else -1
            requests.schedule(f"m{number}", due_ms, to, value, partition=astray)
        else:
            requests.send({"delay-at": str(due_ms), "delay-to": to}, value=value, partition=number % BEFORE)
        if not number % _AT_ONCE:
            requests.flush()
    requests.flush()


def _pending(installation: Installation) -> int:
    time.sleep(0.5)
    reports = installation.progress()
    return sum(sum(one["pending"].values()) for one in reports.values()) if reports else -1


def _killed(installation: Installation, bootstrap: str, after_s: float) -> None:
    """Start the command, and kill it after `after_s` seconds if it is still running."""
    command = [sys.executable, "-m", "faust", "-A", "app", "repartition", "--to", str(AFTER)]
    environment = settings(installation.worker, bootstrap)
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)


def _judge(bootstrap: str, to: str) -> None:
    """Check that each message came once, and not before it was due."""
    got, early = Counter[str](), 0
    for record in read(bootstrap, to):
        got[record.header("delay-id")] += 1
        early += record.timestamp_ms < int(record.value or b"0")
    doubled = sum(number - 1 for number in got.values())
    log.info("%d delivered, %d early, %d more than once", len(got), early, doubled)
    assert (len(got), early, doubled) == (MESSAGES, 0, 0)
