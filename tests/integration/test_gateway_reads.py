"""A gateway answers reads as a worker does, with the permissions of the caller, and says so while no worker answers."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import encode_basic_auth

from app.serve.access.password import Hash
from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import create_topic
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

pytestmark = pytest.mark.core

SECRET = "between these servers, and nobody else"  # noqa: S105 - only for tests
USERS = {"root": 'role = "admin"', "look": 'role = "viewer"', "a": 'role = "admin"\nnamespaces = ["team-a"]'}
READS = (
    *("/messages", "/messages?to={to}&limit=1&whole=1", "/messages/count?seconds=1", "/messages/team-a%2Fx", "/jobs"),
    *("/messages/-?id=team-a%2Fx&life=1", "/messages/x", "/messages/nothing", "/messages?due_from=never", "/jobs/none"),
    *("/dead-letters", "/dead-letters/count", "/dead-letters/0-99", "/audit", "/overview", "/partitions", "/history"),
    *("/partitions/1/destinations", "/partitions/x/destinations", "/destinations", "/timeline", "/namespaces"),
    "/findings?wait=0",
)
#: Members that differ from moment to moment, or are of one worker alone.
PASSING = {"at_ms", "age_ms", "worker", "findings", "minutes", "lateness", "late_ms", "looked_back_to_ms", "workers"}
PASSING |= {"fired_to_ms", "positions", "unread_since_ms"}


@pytest.fixture(scope="module")
def installation(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    file = tmp_path_factory.mktemp("reads") / "access.toml"
    hashes = {name: Hash.of(name, ln=4, r=1, p=1) for name in USERS}
    file.write_text("".join(f'[users.{name}]\n{said}\npassword = "{hashes[name]}"\n' for name, said in USERS.items()))

    def env(app_id: str) -> dict[str, str]:
        return {
            "DELAY_WEB_USERS_FILE": str(file),
            "DELAY_WEB_SECRET": SECRET,
            "DELAY_WEB_PAYLOADS": "masked-for-viewers",
            "DELAY_INPUTS": f"{app_id}-a=native",
            "DELAY_NAMESPACES": f"{app_id}-a=team-a",
        }

    with run("reads", env=env) as made:
        yield made


def ask(url: str, user: str, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
    headers = {"Content-Type": "application/json", "Authorization": encode_basic_auth(user, user)}
    raw = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/v1{path}", raw, headers)  # noqa: S310 - our own servers
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310 - our own servers
            return answer.status, json.load(answer), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), dict(error.headers)


def lasting(said: Any) -> Any:
    """Return an answer without the members that differ from moment to moment."""
    if isinstance(said, dict):
        return {name: lasting(value) for name, value in said.items() if name not in PASSING}
    return list(map(lasting, said)) if isinstance(said, list) else said


def test_a_gateway_answers_reads_as_a_worker_does_and_503_while_none_answers(
    installation: Installation, tmp_path: Path
) -> None:
    one, env = installation.worker, installation.worker.env
    to = create_topic(installation.bootstrap, f"{installation.app_id}-to", 1)
    with (
        Worker(installation.bootstrap, installation.app_id, tmp_path / "two", partitions=PARTITIONS, env=env) as two,
        GatewayProcess(installation.bootstrap, installation.app_id, tmp_path / "gateway", env=env) as gateway,
    ):
        two.start().wait_ready()
        await_sharing(one, two)
        for id_ in ("team-a/x", "x"):
            message = {"to": to, "after": "PT1H", "id": id_, "value": id_}
            assert ask(gateway.url, "root", "/messages", message)[0] == 201
            installation.await_event("accepted", id_)
        eventually(lambda: ask(gateway.url, "root", "/overview")[0] == 200, what="the reports at the gateway")
        workers = (one.url, two.url)  # the gateway may ask each of the two
        eventually(
            lambda: all(ask(url, "root", "/overview")[1].get("pending") == 2 for url in workers),
            what="the reports at the workers",
        )
        for user in USERS:
            for path in (read.replace("{to}", to) for read in READS):
                mine, theirs = ask(gateway.url, user, path), ask(one.url, user, path)
                if "partitions/1" in path:  # only one of the two workers has it
                    theirs = next((found for found in (theirs, ask(two.url, user, path)) if found[0] != 404), theirs)
                assert (mine[0], lasting(mine[1])) == (theirs[0], lasting(theirs[1])), (user, path)
                assert mine[2].get("ETag") == theirs[2].get("ETag")
        assert ask(gateway.url, "look", "/messages/x")[1]["masked"] is True
        assert "masked" not in ask(gateway.url, "root", "/messages/x")[1]

        one.stop()
        eventually(lambda: ask(gateway.url, "root", "/messages/count")[0] == 200, what="the worker that is left")
        two.stop()
        for path in ("/messages", "/overview", "/audit", "/messages/x"):
            status, said, headers = ask(gateway.url, "root", path)
            assert (status, said["type"], "Retry-After" in headers) == (503, "/problems/unreachable", True)
        assert ask(gateway.url, "root", "/messages", {"to": to, "after": "PT1H"})[0] == 201
        assert ask(gateway.url, "a", "/overview")[0] == 403
        one.start().wait_ready()
