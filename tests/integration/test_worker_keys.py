"""One message for one key, also at workers: two workers and a gateway on one Kafka, and a worker that is killed."""

import http.client
import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import read
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.installation import PARTITIONS, Installation, running

pytestmark = pytest.mark.core

Answer = tuple[int, dict[str, str], str]


@pytest.fixture(scope="module")
def installation(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(bootstrap, tmp_path_factory.mktemp("keys"), "keys") as one:
        yield one


@pytest.fixture(scope="module")
def second(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    data = tmp_path_factory.mktemp("second") / "data"
    with Worker(installation.bootstrap, installation.app_id, data, partitions=PARTITIONS) as worker:
        worker.start().wait_ready()
        await_sharing(installation.worker, worker)
        yield worker


def ask(port: int, method: str, path: str, key: str, body: dict[str, object] | None = None) -> Answer:
    """Send a request with a key once the first one with it is over; return status, headers and body."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": f'"{key}"'}
    until_s = time.monotonic() + LIMIT_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            found = answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()
        if found[0] not in (409, 503) or time.monotonic() > until_s:
            return found
        time.sleep(0.05)


def post(port: int, key: str, body: dict[str, object]) -> Answer:
    return ask(port, "POST", "/api/v1/messages", key, body)


def test_a_key_at_two_workers_and_a_gateway_at_once_is_one_message(
    installation: Installation, second: Worker, tmp_path: Path
) -> None:
    to, keys = installation.topic(), [f"key-{number}" for number in range(20)]
    with (
        GatewayProcess(installation.bootstrap, installation.app_id, tmp_path / "gateway") as gateway,
        ThreadPoolExecutor(12) as clients,
    ):
        eventually(lambda: gateway.ready().get("ready"))
        ports = (installation.worker.port, second.port, gateway.port)
        asked = [(port, key) for key in keys for port in ports]
        answers = list(
            clients.map(lambda each: post(each[0], each[1], {"to": to, "after": 2_000, "value": each[1]}), asked)
        )
        others = [post(port, keys[0], {"to": to, "after": 2_000, "value": "another"}) for port in ports]

    assert {status for status, _, _ in answers} == {201}, answers
    bodies = [body for _, _, body in answers]
    assert all(len(set(bodies[place : place + 3])) == 1 for place in range(0, len(bodies), 3))
    assert sum("Idempotency-Replayed" in headers for _, headers, _ in answers) == 2 * len(keys)
    assert [(status, json.loads(body)["type"]) for status, _, body in others] == [
        (422, "/problems/idempotency-key-reused")
    ] * 3
    installation.wait_for(to, len(keys))
    time.sleep(1)
    values = sorted(record.value or b"" for record in read(installation.bootstrap, to))
    assert values == sorted(key.encode() for key in keys)


def test_the_first_answer_comes_from_the_other_worker_and_after_a_crash_without_its_disk(
    installation: Installation, second: Worker
) -> None:
    to, killed = installation.topic(), installation.worker
    body: dict[str, object] = {"to": to, "after": 3_600_000, "id": "crash", "value": "once"}
    first = post(killed.port, "crash", body)
    cancelled = ask(killed.port, "DELETE", "/api/v1/messages/crash", "cancel")
    assert (first[0], cancelled[0]) == (201, 200)

    killed.kill()
    shutil.rmtree(killed.data / "keys")
    assert post(second.port, "crash", body)[2] == first[2]

    killed.start().wait_ready()
    await_sharing(killed, second)
    for port in (killed.port, second.port):
        status, headers, again = post(port, "crash", body)
        assert (status, again, headers["Idempotency-Replayed"]) == (201, first[2], "true")
        assert ask(port, "DELETE", "/api/v1/messages/crash", "cancel")[2] == cancelled[2]
    assert [event["event"] for event in installation.events("crash")] == ["accepted", "cancelled"]


def test_a_request_that_failed_is_carried_out_again(installation: Installation) -> None:
    for _ in range(2):
        status, headers, _ = ask(installation.worker.port, "DELETE", "/api/v1/messages/nobody", "again")
        assert (status, "Idempotency-Replayed" in headers) == (404, False)


def test_a_key_at_an_address_without_keys_or_in_another_form_is_refused(installation: Installation) -> None:
    status, _, said = ask(installation.worker.port, "POST", "/api/v1/jobs", "job", {})
    assert (status, json.loads(said)["type"]) == (400, "/problems/idempotency-key")
    status, _, said = ask(installation.worker.port, "POST", "/api/v1/messages", 'a"b', {})
    assert (status, json.loads(said)["type"]) == (400, "/problems/idempotency-key")
