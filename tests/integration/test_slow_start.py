"""A bootstrap server that hangs delays no others; a start that has to wait logs it, and is alive."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.pace import Stopwatch
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker
from tests.integration.installation import new_app_id, topics_removed

pytestmark = pytest.mark.slow

#: Timeout of each of aiokafka's clients; a start has several.
_CLIENT_S = 40.0


@pytest.fixture
def hanging() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_bootstrap_server_that_hangs_delays_no_start(bootstrap: str, hanging: str, tmp_path: Path) -> None:
    app_id = new_app_id("hanging")
    servers = f"{hanging},127.0.0.1:1,{bootstrap}"
    with topics_removed(bootstrap, app_id), Worker(servers, app_id, tmp_path / "data") as worker:
        with Stopwatch() as watch:
            worker.start().wait_ready()
        assert watch.seconds < _CLIENT_S
        assert "ERROR" not in worker.log


@pytest.mark.core
def test_a_start_that_waits_is_alive_and_says_what_for(hanging: str, tmp_path: Path) -> None:
    with Worker(hanging, new_app_id("hanging"), tmp_path / "data") as worker:
        worker.start()
        eventually(lambda: worker.ready() != (False, "") and "waiting for Kafka" in worker.ready()[1], what="an answer")
        assert "waiting for Kafka" in json.loads(worker.ready()[1])["detail"]
        with urllib.request.urlopen(f"{worker.url}/health/live", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
            assert answer.status == 200
        eventually(lambda: f"waiting for Kafka at {hanging}" in worker.log, what="a word in the log")
