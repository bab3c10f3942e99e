"""Workers, gateways, several processes and the command line reach each other over TLS."""

import http.client
import json
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.harness.certificates import Authority
from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation
from tests.integration.test_cli import PUNCTUAL

pytestmark = pytest.mark.core

HOUR_MS = 3_600_000
AUTHORITY = Authority("private")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of a certificate, whose authority this process and the programs that it starts trust."""
    place = tmp_path_factory.mktemp("tls") / "files"
    AUTHORITY.write(place, "one")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", str(place / "ca.pem"))
        yield place


@pytest.fixture(scope="module")
def tls(files: Path) -> Mapping[str, str]:
    return {"DELAY_TLS_CERT": str(files / "cert.pem"), "DELAY_TLS_KEY": str(files / "key.pem")}


@pytest.fixture(scope="module")
def installation(run: Run, tls: Mapping[str, str]) -> Iterator[Installation]:
    with run("tls", env=lambda _: tls) as made:
        yield made


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
        return json.load(answer)


def found(url: str) -> Any:
    """Return an answer as soon as it is not an error: a gateway reads the workers' reports first."""
    answers = list[Any]()

    def there() -> bool:
        try:
            answers.append(get(url))
        except urllib.error.HTTPError as error:
            error.close()
        return bool(answers)

    eventually(there, what=url)
    return answers[0]


def punctual(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PUNCTUAL, *words], capture_output=True, text=True, check=False, timeout=60, env=env)


def test_the_command_line_reaches_a_worker_over_https(installation: Installation, files: Path) -> None:
    to, id_ = installation.topic(), installation.new_id()
    installation.requests.schedule(id_, now_ms() + HOUR_MS, to, b"x")
    installation.requests.flush()
    installation.await_listed(id_)
    url = installation.worker.url
    assert url.startswith("https://")

    trusting = punctual("show", id_, "--format", "json", "--url", url, env={"SSL_CERT_FILE": str(files / "ca.pem")})
    strange = punctual("show", id_, "--url", url, env={})

    assert (trusting.returncode, json.loads(trusting.stdout)["id"]) == (0, id_)
    assert strange.returncode != 0
    assert "is not trusted" in strange.stderr
    assert "set SSL_CERT_FILE" in strange.stderr


def test_two_workers_and_a_gateway_ask_each_other(
    installation: Installation, tls: Mapping[str, str], tmp_path: Path
) -> None:
    to, ids = installation.topic(), [installation.new_id(home) for home in range(PARTITIONS)]
    for id_ in ids:
        installation.requests.schedule(id_, now_ms() + HOUR_MS, to, b"x")
    installation.requests.flush()
    installation.await_listed(*ids)
    bootstrap, app_id = installation.bootstrap, installation.app_id
    with Worker(bootstrap, app_id, tmp_path / "second", partitions=PARTITIONS, env=tls) as second:
        second.start()
        await_sharing(installation.worker, second)
        for worker in (installation.worker, second):

            def all_found(worker: Worker = worker) -> bool:
                page = get(f"{worker.url}/api/v1/messages?to={to}")
                return not page["missing"] and {row["id"] for row in page["rows"]} == set(ids)

            eventually(all_found, what="the rows of both workers")
        with GatewayProcess(bootstrap, app_id, tmp_path / "gateway", partitions=PARTITIONS, env=tls) as gateway:
            for id_ in ids:
                assert found(f"{gateway.url}/api/v1/messages/{id_}")["to"] == to


def test_several_processes_are_reached_at_one_address(
    installation: Installation, tls: Mapping[str, str], tmp_path: Path
) -> None:
    env = {**tls, "DELAY_PROCESSES": "2"}
    with Worker(installation.bootstrap, f"{installation.app_id}-two", tmp_path / "data", env=env) as worker:
        worker.start().wait_ready()
        assert {worker.metric("delay_process_up", process=number) for number in ("1", "2")} == {1}
        eventually(lambda: len(get(f"{worker.url}/api/v1/partitions")["partitions"]) == 4, what="all partitions")


def test_a_renewed_certificate_is_used_while_a_live_page_goes_on(installation: Installation, files: Path) -> None:
    port = installation.worker.port
    stream = http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT_S)
    stream.request("GET", "/api/v1/events")
    answer = stream.getresponse()
    assert answer.readline()
    old = ssl.get_server_certificate(("127.0.0.1", port))

    AUTHORITY.write(files, "two")

    eventually(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != old, what="the new certificate")
    for _ in range(5):
        assert answer.readline()
    stream.close()
    assert get(f"{installation.worker.url}/health/ready") == {"ready": True}
