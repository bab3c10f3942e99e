"""Spooled messages of a gateway: sent with their original time, in order, once, unless Kafka refuses them."""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import now_ms
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, eventually
from tests.integration.installation import Installation, new_app_id, running

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000

Away = Callable[..., GatewayProcess]


@pytest.fixture(scope="module")
def installation(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(bootstrap, tmp_path_factory.mktemp("spool"), "spool") as made:
        yield made


@pytest.fixture
def nowhere() -> str:
    """An address at which there is no Kafka."""
    return f"127.0.0.1:{free_port()}"


def post(gateway: GatewayProcess, body: object) -> int:
    """Send a message, and return the status."""
    request = urllib.request.Request(  # noqa: S310 - our own
        f"{gateway.url}/api/v1/messages", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code if error.code != 503 or int(error.headers["Retry-After"]) > 0 else 0


def drained(installation: Installation, data: Path) -> None:
    """Have a gateway with Kafka send the records in a spool."""
    with GatewayProcess(installation.bootstrap, installation.app_id, data) as gateway:
        eventually(lambda: gateway.ready().get("spool_records") == 0, what="an empty spool")
        assert gateway.stop() == 0


@pytest.mark.core
def test_a_gateway_that_comes_before_the_first_worker_spools_and_creates_no_topic(
    installation: Installation, tmp_path: Path
) -> None:
    app_id = new_app_id("early")
    with GatewayProcess(installation.bootstrap, app_id, tmp_path / "data") as gateway:
        assert post(gateway, {"to": "orders", "after": 0, "value": "early"}) == 202
        eventually(lambda: "Start a worker" in gateway.log, what="what to do")
        assert gateway.ready()["spool_records"] == 1
        gateway.stop()
    assert f"{app_id}-requests" not in installation.admin().list_topics(timeout=LIMIT_S).topics


@pytest.mark.core
def test_an_order_that_waited_in_the_spool_beats_none_that_came_later(
    installation: Installation, nowhere: str, tmp_path: Path
) -> None:
    to, data, requests = installation.topic(), tmp_path / "data", installation.requests
    cancelled, kept = installation.new_id(), installation.new_id()
    with GatewayProcess(nowhere, installation.app_id, data) as gateway:
        assert post(gateway, {"to": to, "after": 0, "id": cancelled, "value": "old"}) == 202
        said = {"delay-op": "cancel", "delay-id": kept}
        command = [{"name": name, "value": base64.b64encode(text.encode()).decode()} for name, text in said.items()]
        assert post(gateway, {"headers": command, "key": None, "value": None}) == 202
        gateway.kill()
    requests.cancel(cancelled)
    requests.schedule(kept, now_ms() + HOUR_MS, to, b"new")
    requests.flush()
    installation.await_event("unknown", cancelled)
    installation.await_event("accepted", kept)

    drained(installation, data)

    installation.await_event("cancelled", cancelled)
    installation.await_event("stale", kept)
    requests.send({"delay-op": "deliver-now", "delay-id": kept})
    requests.flush()
    assert [record.value for record in installation.wait_for(to, 1)] == [b"new"]


@pytest.mark.core
def test_what_kafka_refuses_becomes_a_dead_letter_and_the_rest_is_delivered_in_order(
    installation: Installation, nowhere: str, tmp_path: Path
) -> None:
    to, data, due_ms = installation.topic(), tmp_path / "data", now_ms() + 1_000
    with GatewayProcess(nowhere, installation.app_id, data) as gateway:
        for number in range(50):
            assert post(gateway, {"to": to, "at": due_ms, "key": "k", "value": f"v-{number}"}) == 202
            if number == 20:
                assert post(gateway, {"to": to, "at": due_ms, "key": "k", "value": "x" * 1_048_500}) == 202
                gateway.kill()
                gateway.start()
        gateway.stop()

    drained(installation, data)

    assert [(record.value or b"").decode() for record in installation.wait_for(to, 50)] == [
        f"v-{number}" for number in range(50)
    ]
    [letter] = installation.letters_for(1, to)
    assert (letter.key, letter.value, letter.header("delay-reason")) == (b"k", None, "too-large")


def test_a_full_disk_answers_503_and_spooled_messages_are_delivered(
    installation: Installation, nowhere: str, tmp_path: Path
) -> None:
    to, data, answers = installation.topic(), tmp_path / "data", list[int]()
    with GatewayProcess(nowhere, installation.app_id, data, largest_file=3_000_000) as gateway:
        while 503 not in answers or answers[-1] != 202:  # it refuses, and takes more when the disk does again
            assert len(answers) < 200
            answers.append(post(gateway, {"to": to, "after": 0, "value": f"{len(answers)}:{'x' * 100_000}"}))
            time.sleep(0.1 if answers[-1] == 503 else 0)
        assert set(answers) == {202, 503}
        assert gateway.ready()["spool_records"] == answers.count(202)

    drained(installation, data)

    delivered = [int((record.value or b"").split(b":")[0]) for record in installation.wait_for(to, answers.count(202))]
    assert sorted(delivered) == [number for number, answer in enumerate(answers) if answer == 202]
