"""Posts to real servers: the request, the part of the response that is read, and the trusted certificates."""

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.base.http import answer_reader
from app.base.http import client as module
from app.base.http.allow_list import AllowList
from app.base.http.answers import HttpOutcome, Meaning
from app.base.http.client import HttpClient
from app.base.http.resolver import SystemResolver
from tests.app.base.http.test_ssrf import Said
from tests.harness.waiting import LIMIT_S

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A server whose response the test sets."""

    def __init__(self, answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> None:
        """Answer each request so."""
        self.answer, self.port = answer, 0
        self.heads: list[bytes] = []
        self.connections = self.sent = 0
        self.closed = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
                )
                await reader.readexactly(length)
                await self.say(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        finally:
            writer.close()

    async def say(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.answer)
        await writer.drain()


class Flood(Peer):
    """Never stops answering."""

    async def say(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
            self.sent += 65_536
            await writer.drain()


class Drip(Peer):
    """Answers a byte at a time."""

    async def say(self, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)


class Pieces(Peer):
    """Answers a few bytes at a time."""

    def __init__(self, answer: bytes, piece: int) -> None:
        """Answer in pieces of this many bytes."""
        super().__init__(answer)
        self._piece = piece

    async def say(self, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(self.answer), self._piece):
            writer.write(self.answer[start : start + self._piece])
            await asyncio.sleep(0.001)


class Endless(Peer):
    """Begins an answer, and never ends it."""

    def __init__(self, first: bytes, rest: bytes) -> None:
        """Say the first once, and the rest for ever."""
        super().__init__()
        self._first, self._rest = first, rest

    async def say(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self._first)
        while True:
            writer.write(self._rest)
            self.sent += len(self._rest)
            await writer.drain()


class Apart:
    """A peer on a loop of its own, which the test's does not hold up."""

    def __init__(self, peer: Peer) -> None:
        """Serve nothing yet."""
        self._peer, self._ready, self._ended = peer, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        async with listening(self._peer):
            self._ready.set()
            await asyncio.to_thread(self._ended.wait, 2 * LIMIT_S)

    def __enter__(self) -> int:
        self._thread.start()
        assert self._ready.wait(LIMIT_S)
        return self._peer.port

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


class Open(Peer):
    """Answers, and does not end its answer."""

    async def say(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        await asyncio.sleep(2)


@asynccontextmanager
async def listening(peer: Peer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    server = await asyncio.start_server(peer, "127.0.0.1", 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    yield peer
    server.close()


async def post(
    peer: Peer, *, path: str = "/", headers: list[tuple[str, str]] | None = None, times: int = 1
) -> HttpOutcome:
    posts = HttpClient(lambda: 0)
    url = f"http://127.0.0.1:{peer.port}{path}"
    try:
        for _ in range(times):
            answer = await posts.post(AllowList(["http://127.0.0.1:*"]).allowed(url), b"body", headers or [])
        return answer
    finally:
        await posts.stop()


async def test_a_request_has_the_required_fields_and_no_others() -> None:
    async with listening(Peer()) as peer:
        await post(peer, path="/a?b=c#d", headers=[("x", "1"), ("x", "2"), ("Content-Type", "text/plain")])

    first, *fields = peer.heads[0].decode().strip().split("\r\n")
    assert first == "POST /a?b=c HTTP/1.1"
    assert sorted(fields) == [
        "Accept-Encoding: identity",
        "Accept: */*",
        "Content-Length: 4",
        "Content-Type: text/plain",
        f"Host: 127.0.0.1:{peer.port}",
        "User-Agent: Punctual",
        "x: 1",
        "x: 2",
    ]


async def test_connections_are_used_again() -> None:
    async with listening(Peer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")) as peer:
        await post(peer, times=5)
    assert (len(peer.heads), peer.connections) == (5, 1)


async def test_of_an_endless_answer_little_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 2 * LIMIT_S)
    async with listening(Flood()) as peer:
        async with asyncio.timeout(LIMIT_S):
            assert (await post(peer)).meaning is Meaning.TAKEN
    assert peer.sent < 32 << 20  # the bytes that were in flight


async def test_cookies_are_not_kept_and_redirects_not_followed() -> None:
    said = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with listening(Peer(said)) as peer:
        assert await post(peer, times=2) == HttpOutcome(Meaning.AGAIN, "HTTP 302", status=302)
    assert len(peer.heads) == 2
    assert not any(b"cookie" in head.lower() or b"elsewhere" in head for head in peer.heads)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "the headers of the response are too large"),
        (b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n", "the headers of the response are too large"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000 + b"\r\n", "the headers of the response are too large"),
        (b"\r\n" * 40_000 + b"HTTP/1.1 200 OK\r\n\r\n", "the headers of the response are too large"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 9 + b"HTTP/1.1 200 OK\r\n\r\n", "too many interim responses"),
        (b"not HTTP at all\r\n\r\n", "no HTTP answer"),
        (b"HTTP/1.1 abc\r\n\r\n", "no HTTP answer"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "no HTTP answer"),
        (b"HTTP/2 200 OK\r\n\r\n", "no HTTP answer"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "timeout"),
    ],
)
async def test_an_invalid_response_fails_with_the_reason(
    said: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 1)
    async with listening(Peer(said)) as peer:
        answer = await post(peer)
    assert (answer.meaning, answer.why) == (Meaning.AGAIN, why)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "said",
    [
        OK + b"X: " + b"x" * 50_000 + b"\r\n\r\n",
        OK + b"a: b\r\n" * 1_000 + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 8 + OK + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 204 No Content\r\n\r\nhello",
        OK + b"Content-Length: -1\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello, world\r\n0\r\n\r\n",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"Duplicate\r\n: nameless\r\nx: \x00\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.0 202 Accepted\r\n\r\nhello",
    ],
)
async def test_a_2xx_counts_however_its_body_is_framed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_S", 0.1)
    async with listening(Peer(said)) as peer:
        assert (await post(peer)).meaning is Meaning.TAKEN


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 100),
        (b"", b"X: y\r\n" * 1_000),
        (OK, b"X: y\r\n" * 1_000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1_000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x" * 10_000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 1_000),
        (OK + b"Content-Encoding: gzip\r\n\r\n", b"\x1f\x8b" * 5_000),
    ],
)
async def test_what_never_ends_is_cut_off_early(monkeypatch: pytest.MonkeyPatch, first: bytes, rest: bytes) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 2 * LIMIT_S)
    async with listening(Endless(first, rest)) as peer:
        async with asyncio.timeout(LIMIT_S):
            await post(peer)
            await peer.closed.wait()
    assert peer.sent < 32 << 20  # the bytes that were in flight


async def test_an_answer_in_many_pieces_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "PIECES", 10)
    async with listening(Drip()) as peer:
        assert await post(peer) == HttpOutcome(Meaning.AGAIN, "the response has too many chunks")


class Twice(Peer):
    """Answers the first request twice, the second time when the connection is idle."""

    async def say(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(0.05)
        if len(self.heads) == 1:
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")


async def stall(seconds: float) -> None:
    """Hold the loop up."""
    time.sleep(seconds)  # noqa: ASYNC251 - a busy worker blocks its loop like this


@pytest.mark.parametrize("wait", [asyncio.sleep, stall])
async def test_an_unsolicited_response_is_not_taken_for_the_answer_to_a_request(
    wait: Callable[[float], Awaitable[None]],
) -> None:
    """Also where the loop was busy, so that the answer was not read when the next request is sent."""
    peer = Twice()
    with Apart(peer) as port:
        posts = HttpClient(lambda: 0)
        allowed = AllowList(["http://127.0.0.1:*"]).allowed(f"http://127.0.0.1:{port}/")
        first = await posts.post(allowed, b"1", [])
        await wait(0.3)
        second = await posts.post(allowed, b"2", [])
        await posts.stop()
    assert (first.status, second.status) == (200, 200)
    assert (len(peer.heads), peer.connections) == (2, 2)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 201 Created\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 20",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 20",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 200 + b"0\r\n\r\n",
    ],
)
async def test_a_connection_with_more_than_is_read_of_an_answer_is_not_used_again(said: bytes) -> None:
    async with listening(Peer(said)) as peer:
        await post(peer, times=2)
    assert (len(peer.heads), peer.connections) == (2, 2)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 1_000])
async def test_a_connection_with_a_whole_answer_is_used_again(said: bytes, piece: int) -> None:
    peer = Pieces(said, piece)
    async with listening(peer):
        await post(peer, times=3)
    assert (len(peer.heads), peer.connections) == (3, 1)


async def test_an_answer_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    async with listening(Drip()) as peer, asyncio.timeout(LIMIT_S):
        assert await post(peer) == HttpOutcome(Meaning.AGAIN, "timeout", of_host=True)


async def test_a_handshake_that_stalls_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    posts = HttpClient(lambda: 0)
    async with asyncio.timeout(LIMIT_S):
        answer = await posts.post(AllowList(["https://127.0.0.1:*"]).allowed(url), b"", [])
    await posts.stop()
    server.close()
    assert answer == HttpOutcome(Meaning.AGAIN, "timeout", of_host=True)


def test_no_handshake_is_offered_whose_cost_a_receiver_chooses() -> None:
    """A prime of 10,000 bits for Diffie-Hellman costs half a second of the event loop."""
    offered = module._tls().get_ciphers()
    assert {one["kea"] for one in offered} <= {"kx-any", "kx-ecdhe"}
    assert module._tls().options & ssl.OP_NO_RENEGOTIATION


async def test_an_answer_that_does_not_end_has_been_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    async with listening(Open()) as peer:
        assert (await post(peer)).meaning is Meaning.TAKEN


async def test_a_host_that_is_not_there_is_the_cause_itself() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        peer = Peer()
        peer.port = taken.getsockname()[1]  # nobody listens
        assert await post(peer) == HttpOutcome(Meaning.AGAIN, "no connection", of_host=True)


@pytest.mark.parametrize("name", ["DNS:hooks.test", "DNS:other.test"])
async def test_certificate_and_host_are_the_names_while_the_address_is_pinned(name: str, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=test", "-addext", f"subjectAltName={name}"]
    made: list[str | Path] = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        key,
        "-out",
        certificate,
        *subject,
    ]
    making = await asyncio.create_subprocess_exec(*made, stderr=subprocess.DEVNULL)
    assert await making.wait() == 0
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    asked_for: list[str | None] = []
    tls.sni_callback = lambda _socket, server, _context: asked_for.append(server)
    async with listening(Peer(), tls) as peer:
        url = f"https://hooks.test:{peer.port}/"
        allowed = AllowList([f"https://hooks.test:{peer.port}"]).allowed(url)
        posts = HttpClient(lambda: 0, Said({"hooks.test": ("127.0.0.1",)}))
        untrusted = await posts.post(allowed, b"", [])
        await posts.stop()
        context = ssl.create_default_context(cafile=certificate)
        posts = HttpClient(lambda: 0, Said({"hooks.test": ("127.0.0.1",)}))
        trusting = posts._session(lambda _: True)
        assert isinstance(trusting.connector, aiohttp.TCPConnector)
        trusting.connector._ssl = context
        posts._sessions[True] = trusting
        trusted = await posts.post(allowed, b"", [])
        await posts.stop()

    assert untrusted == HttpOutcome(Meaning.AGAIN, "certificate not trusted", of_host=True)
    assert asked_for == ["hooks.test", "hooks.test"]
    if name == "DNS:hooks.test":
        assert trusted.meaning is Meaning.TAKEN
        assert f"Host: hooks.test:{peer.port}\r\n".encode() in peer.heads[0]
    else:
        assert trusted == untrusted


async def test_a_slow_name_lookup_delays_no_other_and_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, asked = threading.Event(), []

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host.startswith("slow"):
            slow.wait(2 * LIMIT_S)
            raise socket.gaierror(-2, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    waiting = [asyncio.create_task(resolver.resolve(f"slow-{number % 20}.test", 443)) for number in range(40)]
    await asyncio.sleep(0)
    found = await asyncio.wait_for(resolver.resolve("fast.test", 443), LIMIT_S)
    assert [one["host"] for one in found] == ["93.184.216.34"]
    slow.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, socket.gaierror) for result in results)
    assert len(asked) == 21


async def test_whoever_stops_waiting_for_a_name_leaves_it_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        go.wait(2 * LIMIT_S)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    first, second = (asyncio.create_task(resolver.resolve("a.test", 443)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    go.set()
    assert len(await asyncio.wait_for(second, LIMIT_S)) == 1


async def test_names_that_were_found_quickly_have_room_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        if host.startswith("slow"):
            go.wait(2 * LIMIT_S)
            raise socket.gaierror(-2, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    await resolver.resolve("known.test", 443)
    waiting = [asyncio.create_task(resolver.resolve(f"slow-{number}.test", 443)) for number in range(200)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(resolver.resolve("known.test", 443), LIMIT_S)
    go.set()
    assert all(isinstance(result, OSError) for result in await asyncio.gather(*waiting, return_exceptions=True))
