"""Whoever looks keeps how long answers took, and an answer that is an error ends the measurement."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.asker import Ask, Asker
from benchmarks.errors import PromiseBroken
from tests.harness.waiting import LIMIT_S


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/down" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_answers_are_kept_by_path_without_the_query(url: str) -> None:
    twice = threading.Event()

    def look(ask: Ask) -> None:
        assert ask("/messages?cursor=1") == b"ok"
        ask("/")
        if len(asker.took["/"]) == 2:
            twice.set()

    with Asker(url, look, 0.001) as asker:
        assert twice.wait(LIMIT_S)
    assert set(asker.took) == {"/messages", "/"}
    assert all(took_ms > 0 for _, took_ms in asker.took["/messages"])


def test_an_error_is_raised_where_it_is_waited_for(url: str) -> None:
    failed = threading.Event()

    def look(ask: Ask) -> None:
        try:
            ask("/down")
        finally:
            failed.set()

    with pytest.raises(PromiseBroken, match="/down answers 503"), Asker(url, look, 0.001):
        assert failed.wait(LIMIT_S)
