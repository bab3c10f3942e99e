"""Failed JSON messages with a post time are posted back to their sender, unchanged."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import msgspec
import pytest

from punctual.contract.dialects import airtel
from tests.harness.kafka import create_topic, now_ms
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation
from tests.punctual.contract.records import FakeRecord


class Posted(NamedTuple):
    reason: str | None
    content_type: str | None
    body: bytes


class Client(ThreadingHTTPServer):
    """The sender's web server; it fails the first POST of each message."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: set[str] = set()
        self.taken: dict[str, Posted] = {}

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Client

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path in self.server.seen
        self.server.seen.add(self.path)
        if known:
            said = Posted(self.headers["delay-reason"], self.headers["Content-Type"], body)
            self.server.taken[self.path.strip("/")] = said
        self.send_response(200 if known else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log no requests."""


@pytest.fixture
def client() -> Iterator[Client]:
    with Client() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(scope="module", params=["at_least_once", "exactly_once"])
def installation(run: Run, bootstrap: str, request: pytest.FixtureRequest) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        create_topic(bootstrap, f"{app_id}-delayer", PARTITIONS)

    def env(app_id: str) -> dict[str, str]:
        usual = {"DELAY_CALLBACKS": "http://127.0.0.1*", "DELAY_GUARANTEE": request.param}
        return {"DELAY_INPUTS": f"{app_id}-delayer=airtel", **usual}

    with run("posted-back", before=before, env=env) as made:
        yield made


def test_what_fails_is_posted_back_as_it_came_or_as_json_that_asks_for_the_same(
    installation: Installation, client: Client
) -> None:
    to, narrow, due_ms = installation.topic(), installation.topic(max_message_bytes="2000"), now_ms() + 500
    long, time = "é" * 2_000, f'"postTime":{due_ms}'
    fields = {
        "no-time": f'"topic":"{to}",\n\t"value": {{"n": 1.50}}',
        "no-topic": f'"topic":"nowhere","value":1,{time}',
        "large": f'"topic":"{narrow}","key":"k","value":{{"a":"{long}","n":1.5}},"headers":{{"h":"1","n":null}},{time}',
        "fine": f'"topic":"{to}","value":"v",{time}',
    }
    asked = {name: f'{{ {said}, "failurePostCallbackUrl":"{client.url(name)}" }}' for name, said in fields.items()}
    for number, body in enumerate(asked.values()):
        topic = f"{installation.app_id}-delayer"
        installation.requests.send([], None, body.encode(), topic=topic, partition=number % PARTITIONS)
    installation.requests.flush()
    installation.wait_for(to, 1)
    eventually(lambda: len(client.taken) == 3, what="the callbacks")

    assert {name: posted.reason for name, posted in client.taken.items()} == {
        "no-time": "missing-due",
        "no-topic": "unknown-topic",
        "large": "too-large",
    }
    assert client.taken["no-time"].body == asked["no-time"].encode()
    assert client.taken["no-time"].content_type == "application/json"
    for name in ("no-topic", "large"):  # accepted at first
        back = client.taken[name].body
        again, first = (airtel.decode(FakeRecord([], None, body)) for body in (back, asked[name].encode()))
        assert again == first
        assert set(msgspec.json.decode(back)) >= set(msgspec.json.decode(asked[name]))
    assert len(installation.letters(3)) == 3
