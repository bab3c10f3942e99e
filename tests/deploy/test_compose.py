"""The compose file: on loopback alone, safely replicated, without secrets; its worker's settings run."""

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # it ships no types

from app.serve.access import access
from app.settings.settings import Settings
from tests.harness.account import Account
from tests.harness.kafka import Requests, create_topic
from tests.harness.waiting import LIMIT_S
from tests.harness.worker import Worker
from tests.integration.installation import new_app_id, topics_removed, wait_for

FILE = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
WORKERS = {name: one for name, one in SERVICES.items() if name.startswith("worker-")}
_ADDRESSES = ("KAFKA_BOOTSTRAP_SERVERS", "WORKER_URL", "HOST", "PORT", "DATADIR", "DELAY_APP_ID")
_ONE_BROKER = {"DELAY_REPLICATION_FACTOR": "1"}


def test_everything_is_published_on_loopback_alone() -> None:
    ports = [port for one in SERVICES.values() for port in one.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_topics_survive_a_broker() -> None:
    assert sum(name.startswith("kafka-") for name in SERVICES) == 3
    assert len(WORKERS) == 2
    for one in WORKERS.values():
        settings = Settings.from_env(one["environment"])
        assert settings.topics.replication_factor == 3


def test_there_is_no_secret() -> None:
    names = {name for one in SERVICES.values() for name in one.get("environment", {})}
    assert not [name for name in names if re.search("PASSWORD|SECRET|TOKEN(?!S_FILE)", name)]


def test_a_worker_that_others_can_reach_is_read_only() -> None:
    for one in WORKERS.values():
        settings = Settings.from_env(one["environment"])
        access.check(settings.process, settings.web)
        assert settings.process.public
        assert settings.read_only


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_writes_to_its_volume_alone(name: str) -> None:
    one = WORKERS[name]
    assert one["read_only"]
    assert one["cap_drop"] == ["ALL"]
    assert one["volumes"] == [f"{name}:{one['environment']['DATADIR']}"]


def test_the_gateway_needs_tokens_and_keeps_its_spool_on_its_volume() -> None:
    one = SERVICES["gateway"]
    settings = Settings.from_env(one["environment"])
    assert settings.process.public
    tokens = one["environment"]["DELAY_WEB_USERS_FILE"]
    assert one["volumes"] == [f"gateway:{settings.process.datadir}", f"./gateway-tokens:{tokens}:ro"]
    assert one["command"][0] == "gateway"
    assert one["ports"] == [f"127.0.0.1:6070:{settings.gateway.port}"]
    shared = {name for name in WORKERS["worker-1"]["environment"] if name.startswith(("DELAY_", "KAFKA_"))}
    assert shared <= set(one["environment"])


@pytest.fixture
def worker(bootstrap: str, tmp_path: Path) -> Iterator[Worker]:
    """A worker with the file's settings, except for addresses, the directory, and those that need several brokers."""
    given = {name: value for name, value in WORKERS["worker-1"]["environment"].items() if name not in _ADDRESSES}
    if len(bootstrap.split(",")) == 1:
        given |= _ONE_BROKER
    app_id = new_app_id("compose")
    one = Worker(bootstrap, app_id, tmp_path / "data", env=given)
    with topics_removed(bootstrap, app_id), one:
        yield one


@pytest.mark.slow
def test_its_settings_deliver_answer_probes_and_drain(bootstrap: str, worker: Worker) -> None:
    worker.start().wait_ready()
    to = create_topic(bootstrap, f"{worker.app_id}-to", 1)
    requests = Requests(bootstrap, worker.app_id)
    requests.schedule("one", int(time.time() * 1000) + 500, to, b"hello")
    requests.flush()
    assert [record.value for record in wait_for(bootstrap, to, 1)] == [b"hello"]
    with urllib.request.urlopen(f"{worker.url}/health/live", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
        assert answer.status == 200
    grace = float(WORKERS["worker-1"]["stop_grace_period"].removesuffix("s"))
    Account.settled(bootstrap, worker.app_id, pending=0)  # it reports once a second, and no more when it has ended
    worker.terminate()
    assert worker.wait_dead(grace) == 0
    lines = worker.log.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("{"))  # behind the banner
    assert {json.loads(line)["level"] for line in lines[first:]} >= {"info"}
