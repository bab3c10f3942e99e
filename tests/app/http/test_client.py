"""Posts to real servers: what is sent, how much of an answer is read, and whose certificate counts."""

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

from app.http import client as module
from app.http.allow_list import AllowList
from app.http.answers import Answer, Meaning
from app.http.client import HttpClient
from app.http.resolver import SystemResolver
from tests.app.http.test_ssrf import Said

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """A server that says what the test has it say."""

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


async def post(peer: Peer, *, path: str = "/", headers: list[tuple[str, str]] | None = None, times: int = 1) -> Answer:
    posts = HttpClient(lambda: 0)
    url = f"http://127.0.0.1:{peer.port}{path}"
    try:
        for _ in range(times):
            answer = await posts.post(AllowList(["http://127.0.0.1:*"]).allowed(url), b"body", headers or [])
        return answer
    finally:
        await posts.stop()


async def test_a_request_says_what_it_must_and_no_more() -> None:
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


async def test_of_an_endless_answer_little_is_read() -> None:
    async with listening(Flood()) as peer:
        began = time.monotonic()
        assert (await post(peer)).meaning is Meaning.TAKEN
        assert time.monotonic() - began < 5
    assert peer.sent < 32 << 20  # what was under way


async def test_cookies_are_not_kept_and_redirects_not_followed() -> None:
    said = b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with listening(Peer(said)) as peer:
        assert await post(peer, times=2) == Answer(Meaning.AGAIN, "HTTP 302", status=302)
    assert len(peer.heads) == 2
    assert not any(b"cookie" in head.lower() or b"elsewhere" in head for head in peer.heads)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_no_answer_is_none(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 1)
    async with listening(Peer(said)) as peer:
        answer = await post(peer)
    assert (answer.meaning, answer.why) in {(Meaning.AGAIN, "no HTTP answer"), (Meaning.AGAIN, "timeout")}
    assert "x" * 20 not in answer.why


async def test_an_answer_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    async with listening(Drip()) as peer:
        began = time.monotonic()
        assert await post(peer) == Answer(Meaning.AGAIN, "timeout", of_host=True)
        assert time.monotonic() - began < 2


async def test_an_answer_that_does_not_end_has_been_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    async with listening(Open()) as peer:
        assert (await post(peer)).meaning is Meaning.TAKEN


async def test_a_host_that_is_not_there_is_the_cause_itself() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        peer = Peer()
        peer.port = taken.getsockname()[1]  # nobody listens
        assert await post(peer) == Answer(Meaning.AGAIN, "no connection", of_host=True)


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

    assert untrusted == Answer(Meaning.AGAIN, "certificate not trusted", of_host=True)
    assert asked_for == ["hooks.test", "hooks.test"]
    if name == "DNS:hooks.test":
        assert trusted.meaning is Meaning.TAKEN
        assert f"Host: hooks.test:{peer.port}\r\n".encode() in peer.heads[0]
    else:
        assert trusted == untrusted


async def test_names_that_take_long_hold_up_no_other_and_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, asked = threading.Event(), []

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host.startswith("slow"):
            slow.wait(10)
            raise socket.gaierror(-2, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    waiting = [asyncio.create_task(resolver.resolve(f"slow-{number % 20}.test", 443)) for number in range(40)]
    await asyncio.sleep(0)
    found = await asyncio.wait_for(resolver.resolve("fast.test", 443), 5)
    assert [one["host"] for one in found] == ["93.184.216.34"]
    slow.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, socket.gaierror) for result in results)
    assert len(asked) == 21


async def test_whoever_stops_waiting_for_a_name_leaves_it_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        go.wait(10)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    first, second = (asyncio.create_task(resolver.resolve("a.test", 443)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    go.set()
    assert len(await asyncio.wait_for(second, 5)) == 1
