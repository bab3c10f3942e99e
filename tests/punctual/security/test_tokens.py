"""Tokens are requested once and renewed ahead, and errors contain no secret."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import pytest

from punctual.security import TokenError
from punctual.security.connections import TokenProvider
from punctual.security.login import OAuthClient
from punctual.security.token_endpoint import ask
from punctual.security.tokens import Tokens
from tests.harness.waiting import LIMIT_S, crowd, eventually

CANARY = "canary:94/ä"


class Endpoint(ThreadingHTTPServer):
    """A token endpoint that returns a given response."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self.answer: tuple[int, bytes] = (200, b"{}")
        self.location = ""
        self.slow_s = 0.0
        self.lasts_s: float | None = 3_600

    def client(self, **more: Any) -> OAuthClient:
        return OAuthClient(f"http://127.0.0.1:{self.server_port}/token", "wor ker", CANARY, **more)

    def give(self) -> bytes:
        told = {"access_token": f"token-{len(self.asked)}", "token_type": "Bearer"}
        return json.dumps(told if self.lasts_s is None else told | {"expires_in": self.lasts_s}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        name, _, secret = base64.b64decode(self.headers["Authorization"].split()[1]).decode().partition(":")
        self.server.asked.append({"form": parse_qs(form), "who": (unquote_plus(name), unquote_plus(secret))})
        time.sleep(self.server.slow_s)
        status, body = self.server.answer
        self.send_response(status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(body if body != b"{}" else self.server.give())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_token_request_follows_the_standard(endpoint: Endpoint) -> None:
    assert ask(endpoint.client(scope="kafka x")) == ("token-1", 3_600)
    assert endpoint.asked[0]["who"] == ("wor ker", CANARY)
    assert endpoint.asked[0]["form"] == {"grant_type": ["client_credentials"], "scope": ["kafka x"]}


def test_a_token_that_does_not_say_how_long_it_lasts_says_it_inside_or_lasts_a_while(endpoint: Endpoint) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"iat": 100, "exp": 160}).encode()).decode().rstrip("=")
    endpoint.answer = (200, json.dumps({"access_token": f"a.{claims}.c"}).encode())
    assert ask(endpoint.client()).lasts_s == 60
    endpoint.answer = (200, b'{"access_token": "opaque"}')
    assert ask(endpoint.client()).lasts_s == 300


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, b'{"error": "invalid_client", "error_description": "canary"}', "returned 401 invalid_client. Check the"),
        (500, b"canary", "returned 500. Check the client"),
        (400, b'{"error": "<canary>"}', "returned 400. Check the client"),
        (200, b"canary", "returned no token"),
        (200, b'["canary"]', "returned no token"),
        (200, b"[" * 10_000, "returned no token"),
        (400, b'{"error":' * 10_000, "returned 400. Check the client"),
        (200, b'{"access_token": "ca\\u0001nary"}', "returned a token with characters that a header cannot have"),
    ],
)
def test_a_refusal_of_the_endpoint_is_reported_without_its_text_and_without_the_secret(
    endpoint: Endpoint, status: int, body: bytes, says: str
) -> None:
    endpoint.answer = (status, body)
    with pytest.raises(TokenError) as raised:
        ask(endpoint.client())

    assert says in str(raised.value)
    assert "canary" not in str(raised.value)
    assert "for the client wor ker" in str(raised.value)


def test_the_secret_follows_no_redirect(endpoint: Endpoint) -> None:
    endpoint.answer, endpoint.location = (302, b"-"), f"http://127.0.0.1:{endpoint.server_port}/other"
    with pytest.raises(TokenError, match="returned 302"):
        ask(endpoint.client())
    assert len(endpoint.asked) == 1


def test_a_missing_endpoint_is_reported() -> None:
    client = OAuthClient("http://127.0.0.1:1/token", "worker", CANARY)
    with pytest.raises(TokenError, match=r"does not answer: .*refused.* Check that it can be reached") as raised:
        ask(client)
    assert CANARY not in str(raised.value)


def test_many_who_need_a_token_at_once_ask_for_one(endpoint: Endpoint) -> None:
    endpoint.slow_s = 0.2
    tokens = Tokens(endpoint.client())
    assert tokens.kept() is None
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: tokens.get(), range(8))) == {"token-1"}
    assert len(endpoint.asked) == 1


@pytest.mark.slow
def test_a_token_is_renewed_before_it_expires_and_no_connection_waits_for_it(endpoint: Endpoint) -> None:
    endpoint.lasts_s = 2 * crowd()
    tokens = Tokens(endpoint.client())
    tokens.get()
    seen = set[str | None]()
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until and len(seen) < 2:
        seen.add(tokens.kept())
        time.sleep(0.01)
    assert {"token-1", "token-2"} <= seen
    assert None not in seen


@pytest.mark.slow
def test_if_there_is_no_new_token_the_old_one_is_used_to_its_end(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.lasts_s = 6  # a crowded machine stands still for a second
    tokens = Tokens(endpoint.client())
    tokens.get()
    endpoint.answer = (503, b"away")
    eventually(lambda: "returned 503" in caplog.text, what="a word about it")
    assert tokens.kept() == "token-1"
    eventually(lambda: tokens.kept() is None, what="its end")
    endpoint.answer = (200, b"{}")
    assert tokens.get() == "token-3"


async def test_aiokafka_gets_a_refusal_as_one_of_its_own_errors(endpoint: Endpoint) -> None:
    from aiokafka.errors import SaslAuthenticationFailed  # noqa: PLC0415 - only here

    provider = TokenProvider(endpoint.client(extensions=(("logicalCluster", "lkc-1"),)))
    endpoint.answer = (401, b'{"error": "invalid_client"}')
    with pytest.raises(SaslAuthenticationFailed, match="returned 401 invalid_client"):
        await provider.token()
    endpoint.answer = (200, b"{}")
    assert await provider.token() == await provider.token() == "token-2"
    assert provider.extensions() == {"logicalCluster": "lkc-1"}
