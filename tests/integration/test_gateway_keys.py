"""One message for one key: two gateways and a worker on one Kafka, and a gateway that is killed in between."""

import http.client
import json
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import delete_topic, read
from tests.harness.program import Program
from tests.harness.waiting import LIMIT_S, eventually
from tests.integration.installation import Installation, running

pytestmark = pytest.mark.slow

CRASH = Path(__file__).parents[1] / "harness" / "gateway_crash.py"
Answer = tuple[int, str]


@pytest.fixture(scope="module")
def installation(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(bootstrap, tmp_path_factory.mktemp("keys"), "keys") as one:
        yield one


def send(gateway: GatewayProcess, key: str, body: dict[str, object]) -> Answer:
    """Send a message with a key; return the answer's status and body, and 0 if the gateway has ended."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT_S)
    headers = {"Content-Type": "application/json", "Idempotency-Key": f'"{key}"'}
    try:
        connection.request("POST", "/api/v1/messages", json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (http.client.HTTPException, ConnectionError):
        return 0, ""
    finally:
        connection.close()


def insist(gateway: GatewayProcess, key: str, body: dict[str, object]) -> Answer:
    """Send a message again while it is in progress elsewhere."""
    while (answer := send(gateway, key, body))[0] == 409:
        time.sleep(0.05)
    return answer


@pytest.mark.core
def test_a_key_at_two_gateways_at_once_is_one_message(installation: Installation, tmp_path: Path) -> None:
    to, bootstrap, app_id = installation.topic(), installation.bootstrap, installation.app_id
    keys = [f"key-{number}" for number in range(30)]
    with (
        GatewayProcess(bootstrap, app_id, tmp_path / "one") as one,
        GatewayProcess(bootstrap, app_id, tmp_path / "two") as two,
        ThreadPoolExecutor(16) as clients,
    ):
        eventually(lambda: one.ready().get("ready") and two.ready().get("ready"))
        asked = [(gateway, key) for key in keys for gateway in (one, two, one)]
        answers = list(
            clients.map(lambda each: insist(each[0], each[1], {"to": to, "after": 200, "value": each[1]}), asked)
        )
        other = send(two, keys[0], {"to": to, "after": 200, "value": "another"})

    assert {status for status, _ in answers} == {201}
    assert all(len(set(answers[place : place + 3])) == 1 for place in range(0, len(answers), 3))
    assert other[0] == 422
    installation.wait_for(to, len(keys))
    time.sleep(1)
    assert sorted(record.value or b"" for record in read(bootstrap, to)) == sorted(key.encode() for key in keys)


@pytest.mark.core
def test_receipts_that_were_deleted_are_written_to_a_new_topic(installation: Installation, tmp_path: Path) -> None:
    to, bootstrap, app_id = installation.topic(), installation.bootstrap, installation.app_id
    with GatewayProcess(bootstrap, app_id, tmp_path / "one") as one:
        eventually(lambda: one.ready().get("ready"))
        assert insist(one, "before", {"to": to, "after": 0, "value": "before"})[0] == 201
        delete_topic(bootstrap, f"{app_id}-receipts")
        eventually(lambda: insist(one, "after", {"to": to, "after": 0, "value": "after"})[0] == 201, what="a new topic")
        assert insist(one, "after", {"to": to, "after": 0, "value": "after"})[0] == 201
    found = installation.wait_for(to, 2)
    assert sorted(record.value or b"" for record in found) == [b"after", b"before"]


def test_a_request_interrupted_by_a_kill_is_one_message_with_the_first_due_time(
    installation: Installation, tmp_path: Path
) -> None:
    to, bootstrap, app_id = installation.topic(), installation.bootstrap, installation.app_id
    body: dict[str, object] = {"to": to, "after": 2_000, "value": "once"}
    killed = GatewayProcess(bootstrap, app_id, tmp_path / "one")
    with killed, GatewayProcess(bootstrap, app_id, tmp_path / "two") as two:
        usual, env = killed._program, killed._program._env
        usual.kill()
        killed._program = Program(Path(f"{killed.data}.log"), str(CRASH), "-A", "app", "gateway", env=env)
        killed.start()
        eventually(lambda: killed.ready().get("ready") and two.ready().get("ready"))
        began_ms = int(time.time() * 1000)
        assert send(killed, "k", body)[0] == 0
        ended_ms = int(time.time() * 1000)

        status, said = send(two, "k", body)
        assert status == 409, said

        time.sleep(0.5)
        killed.kill()
        killed._program = Program(Path(f"{killed.data}.log"), "-m", "faust", "-A", "app", "gateway", env=env)
        killed.start()
        eventually(lambda: killed.ready().get("ready"))
        status, said = insist(killed, "k", body)
        assert status == 201, said
        first_ms = json.loads(said)["due_ms"] - 2_000
        assert began_ms <= first_ms <= ended_ms, "counted from when it came first"
        assert insist(two, "k", body) == (status, said)

    installation.wait_for(to, 1)
    time.sleep(1)
    assert [record.value for record in read(bootstrap, to)] == [b"once"]


def test_a_disk_that_takes_no_more_answers_503_and_takes_keys_again_later(
    installation: Installation, tmp_path: Path
) -> None:
    to, bootstrap, app_id = installation.topic(), installation.bootstrap, installation.app_id
    answers, unready, refused, has_room = list[int](), list[str](), set[str](), False
    with GatewayProcess(bootstrap, app_id, tmp_path / "full", largest_file=120_000) as gateway:
        while not has_room or answers[-1] != 201:
            assert len(answers) < 2_000
            status, body = send(gateway, f"disk-{len(answers)}", {"to": to, "after": 0, "value": f"{len(answers)}"})
            answers.append(status)
            if status == 503:
                refused.add(json.loads(body)["type"])
                unready.append(str(gateway.ready().get("missing")))
                # Opened again, the database accepts keys until its next file is as large: until then the gateway is
                # ready.
                if answers.count(503) >= 20 and any("idempotency keys" in reason for reason in unready):
                    resource.prlimit(
                        gateway.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                    )
                    has_room = True
                time.sleep(0.02)
        again = send(gateway, "disk-0", {"to": to, "after": 0, "value": "0"})
    assert set(answers) == {201, 503}
    assert any("idempotency keys" in reason for reason in unready)
    # A request whose receipt was written before the disk was full waits for the gateway to read it.
    assert "/problems/disk-full" in refused <= {"/problems/disk-full", "/problems/keys-unread"}
    assert again[0] == 201
    installation.wait_for(to, answers.count(201))
    delivered = sorted(int(record.value or b"") for record in read(bootstrap, to))
    assert delivered == [number for number, answer in enumerate(answers) if answer == 201]
