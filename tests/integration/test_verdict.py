"""The verdict is not good while no requests are accepted, a pause makes messages late, or writes fail."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from app.dev.broker import Broker
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, crowd, eventually
from tests.harness.worker import Worker
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, running
from tests.integration.test_actions import get, post
from tests.integration.test_pause import await_paused

LITTLE = {"HOOK_FREE_DISK": str(1 << 40)}


def live(worker: Worker) -> dict[str, Any]:
    """Return the first event of the live stream."""
    with urllib.request.urlopen(f"{worker.url}/api/v1/events", timeout=LIMIT_S) as stream:  # noqa: S310 - our own port
        for line in stream:
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return found
    raise AssertionError("the stream has ended")


def test_a_pause_for_which_messages_are_late_is_not_on_time(run: Run, tmp_path: Path) -> None:
    with run("verdict", balanced=False) as installation:
        to = installation.topic()
        eventually(lambda: live(installation.worker).get("level") == "good", what="the verdict")
        assert post(installation, f"/destinations/{to}/pause", {"reason": "closed"})[0] == 200
        await_paused(installation, to)
        installation.requests.schedule("one", now_ms() + 1_500, to, b"v")
        installation.requests.flush()
        eventually(lambda: live(installation.worker).get("level") == "late", what="the verdict")
        eventually(
            lambda: live(installation.worker).get("verdict", "").startswith(f"Paused: {to} is paused"),
            what="the verdict's sentence",
        )
        assert installation.worker.ready()[0], "the pause is ended by the same API"
        due = f'delay_destination_paused_due_timestamp_seconds{{destination="{to}"}}'
        eventually(lambda: due in metrics(installation.worker), what="the metric")
        assert post(installation, f"/destinations/{to}/resume")[0] == 200
        installation.wait_for(to, 1)
        eventually(lambda: live(installation.worker).get("level") == "good", what="the verdict")

        installation.worker.stop()
        env = {**installation.worker.env, **LITTLE}
        with Worker(installation.bootstrap, installation.app_id, tmp_path, partitions=PARTITIONS, env=env) as worker:
            worker.start()
            eventually(
                lambda: "the worker accepts no requests, because less disk space is free" in str(worker.ready()[1]),
                what="the reason",
            )
            eventually(
                lambda: "stopped accepting requests: free disk space is below" in live(worker).get("verdict", ""),
                what="the verdict",
            )


def metrics(worker: Worker) -> str:
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
        text: str = answer.read().decode()
        return text


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_worker_without_confirmed_writes_is_not_ready_and_counts_overdue_messages(
    tmp_path: Path, guarantee: str
) -> None:
    with Broker() as broker:
        env = {"DELAY_GUARANTEE": guarantee}
        with running(broker.bootstrap, tmp_path, "away", env=lambda _: env) as installation:
            to, due = installation.topic(), now_ms() + int(6_000 * crowd())
            for number in range(20):
                installation.requests.schedule(f"one-{number}", due, to, b"v")
            installation.requests.flush()
            eventually(lambda: get(installation, "/overview")[1].get("pending") == 20, what="the messages")
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                eventually(lambda: not installation.worker.ready()[0], what="the worker's not being ready")
                eventually(lambda: live(installation.worker).get("overdue") == 20, what="the overdue messages")
                eventually(
                    lambda: (
                        "Late: The brokers have not confirmed any write for" in live(installation.worker)["verdict"]
                    ),
                    what="the verdict",
                )
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            installation.wait_for(to, 20, 60)
            eventually(lambda: installation.worker.ready()[0], what="the worker's being ready")
