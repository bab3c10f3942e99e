"""Every id is shown, moved and cancelled by the API, the gateway, the console and the command line."""

import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.serve.web.ids import address
from punctual.cli import main
from tests.app.serve.web.test_ids import ODD
from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.integration.installation import Installation

HOUR_MS = 3_600_000
IDS = sorted(set(ODD))


@pytest.fixture(scope="module")
def gateway(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    data = tmp_path_factory.mktemp("gateway") / "data"
    with GatewayProcess(installation.bootstrap, installation.app_id, data) as made:
        made.wait_state("up")
        # Then it reads which worker serves what: the ids live in different partitions.
        known = [address(f"{made.url}/api/v1/messages", f"none-{number}") for number in range(20)]
        eventually(lambda: all(ask(url)[0] == 404 for url in known), what="the gateway's answers")
        yield made


@pytest.fixture
def to(installation: Installation) -> str:
    """A destination of messages with all odd ids, which are due in an hour."""
    topic = installation.topic()
    for id_ in IDS:
        due = str(now_ms() + HOUR_MS).encode()
        headers = [("delay-id", id_.encode()), ("delay-at", due), ("delay-to", topic.encode())]
        installation.requests.send(headers, id_.encode(), b"v")
    installation.requests.flush()
    count = f"{installation.worker.url}/api/v1/messages/count?to={topic}"
    eventually(lambda: json.loads(ask(count)[1]).get("matching") == len(IDS), what="all of them")
    return topic


def ask(url: str, method: str = "GET", body: object = None, kind: str = "application/json") -> tuple[int, str]:
    raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, raw, {"Content-Type": kind}, method=method)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.usefixtures("to")
def test_each_is_shown_moved_and_shown_again(
    installation: Installation, gateway: GatewayProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    api, url = f"{installation.worker.url}/api/v1/messages", ["--url", installation.worker.url]
    for number, id_ in enumerate(IDS):
        due_ms = now_ms() + 2 * HOUR_MS
        match number % 3:
            case 0:
                status, said = ask(address(api, id_, "/reschedule"), "POST", {"at": due_ms})
            case 1:
                status, said = ask(address(f"{gateway.url}/api/v1/messages", id_), "PATCH", {"at": due_ms})
            case _:
                status = main.run("reschedule", ["--at", str(due_ms), "--id", id_, *url]) or 200
                said = capsys.readouterr().err
        assert status == 200, (id_, said)

        page = address(api, id_)
        status, said = ask(f"{page}{'&' if '?' in page else '?'}life=1")
        assert (status, json.loads(said)["id"], json.loads(said)["due_ms"]) == (200, id_, due_ms)
        status, said = ask(address(f"{gateway.url}/api/v1/messages", id_))
        assert (status, json.loads(said).get("id")) == (200, id_), said
        status, said = ask(address(f"{installation.worker.url}/messages", id_))
        assert status == 200, (id_, said)
        assert "Cancel the message" in said, id_
        assert main.run("show", ["--format", "json", *url, "--", id_]) == 0
        assert json.loads(capsys.readouterr().out)["id"] == id_


def test_each_is_cancelled(
    installation: Installation,
    gateway: GatewayProcess,
    to: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, url = f"{installation.worker.url}/api/v1/messages", ["--url", installation.worker.url]
    page, form = f"{installation.worker.url}/messages", "application/x-www-form-urlencoded"
    for number, id_ in enumerate(IDS[: len(IDS) * 3 // 4]):
        match number % 3:
            case 0:
                status, said = ask(address(api, id_, "/cancel"), "POST", {})
            case 1:
                status, said = ask(address(f"{gateway.url}/api/v1/messages", id_), "DELETE")
            case _:
                status, said = ask(address(page, id_, "/cancel"), "POST", b"", form)
        assert status == 200, (id_, said)
    main.run("list", ["--to", to, "--format", "json", "--limit", "0", *url])
    left = capsys.readouterr().out
    assert len(left.splitlines()) == len(IDS) - len(IDS) * 3 // 4

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(left.encode())))
    assert main.run("cancel", ["-", *url]) == 0

    count = f"{installation.worker.url}/api/v1/messages/count?to={to}"
    eventually(lambda: json.loads(ask(count)[1]).get("matching") == 0, what="the end of all")
    assert set(installation.await_event("cancelled", *IDS)) == set(IDS)
