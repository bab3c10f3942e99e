"""A message that fails goes back to the URL that its sender has named, as far as it fits."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.harness.kafka import create_topic, now_ms
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.installation import Event, Installation

pytestmark = pytest.mark.core

MIB = 1 << 20


class Desk(ThreadingHTTPServer):
    """Takes callbacks; the first one of each message finds it closed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tries: list[Event] = []
        self.taken: list[Event] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/failed"


class Handler(BaseHTTPRequestHandler):
    server: Desk

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = body["source"] in [tried["source"] for tried in self.server.tries]
        (self.server.taken if known else self.server.tries).append(body)
        self.send_response(204 if known else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log no requests."""


@contextlib.contextmanager
def running_desk() -> Iterator[Desk]:
    """Run a desk."""
    with Desk() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with running_desk() as made:
        yield made


@pytest.fixture(scope="module")
def installation(run: Run, bootstrap: str) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        create_topic(bootstrap, f"{app_id}-requests", 4)

    with run("callbacks", before=before, env=lambda _: {"DELAY_CALLBACKS": "http://127.0.0.1*"}) as made:
        yield made


def test_what_fails_goes_back_to_its_sender_until_it_is_taken(installation: Installation, desk: Desk) -> None:
    narrow, url = installation.topic(max_message_bytes="10000"), desk.url
    asked = {"delay-on-failure": url, "delay-to": narrow, "delay-after": "200"}
    installation.requests.send({"delay-on-failure": url, "delay-to": narrow, "user": "u"}, b"refused", b"\xff")
    installation.requests.send({**asked, "delay-id": "rejected"}, b"rejected", b"v" * 20_000)
    # As JSON, the zeros are six times as long, more than the changelog takes.
    installation.requests.send({**asked, "delay-id": "zeros"}, b"zeros", bytes(MIB * 9 // 10))
    installation.alter(installation.requests.topic, max_message_bytes=str(8 * MIB))
    installation.requests.send(asked, b"too large", os.urandom(4 * MIB))
    installation.requests.send({**asked, "delay-on-failure": "http://elsewhere.example"}, b"not allowed", b"")
    installation.requests.flush()

    eventually(lambda: len(desk.taken) == 4, what="the last callback")
    bodies = {body["id"] if body["id"] in ("rejected", "zeros") else body["reason"]: body for body in desk.taken}
    refused, rejected = bodies["missing-due"], bodies["rejected"]
    assert (refused["key"], refused["value"], refused["headers"]) == ("refused", {"base64": "/w=="}, [["user", "u"]])
    assert (rejected["reason"], rejected["value"], rejected["topic"]) == ("too-large", "v" * 20_000, narrow)
    for body in (bodies["zeros"], bodies["too-large"]):
        assert (body["reason"], body["value"]) == ("too-large", None)
        assert "left out" in body["error"]
    installation.dead_letters(b"refused", b"rejected", b"zeros", b"too large", b"not allowed")


def test_a_host_that_hangs_keeps_no_other_waiting(installation: Installation) -> None:
    """What listens and never accepts takes a connection and a request, and does not answer."""
    with contextlib.ExitStack() as stack:
        hangs = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200))
        healthy = [stack.enter_context(running_desk()) for _ in range(5)]
        to = installation.topic()  # without a due time all messages are refused
        asked = {"delay-to": to, "delay-on-failure": f"http://127.0.0.1:{hangs.getsockname()[1]}/"}
        for _ in range(120):
            installation.requests.send(asked, None, b"")
        installation.requests.flush()
        installation.letters_for(120, to)
        for one in healthy:
            installation.requests.send({"delay-to": to, "delay-on-failure": one.url}, None, b"")
        installation.requests.flush()

        eventually(lambda: all(one.taken for one in healthy), what="a callback to each of the other hosts")


def test_a_worker_that_has_made_its_callbacks_goes_on(installation: Installation) -> None:
    to, due = installation.topic(), now_ms() + 300
    installation.requests.schedule(installation.new_id(), due, to)
    installation.requests.flush()

    assert len(installation.wait_for(to, 1)) == 1
