"""All our servers refuse compressed, slow, malformed and non-HTTP input, and log none of its content."""

import asyncio
import gzip
import logging
import zlib
from collections.abc import Iterator

import pytest
from aiohttp import compression_utils

from app.base.listening import limits
from tests.app.base.listening.conftest import answer_to
from tests.harness.waiting import LIMIT_S

CANARY = "c4n4ry"
SECRET = f"Authorization: Bearer {CANARY}\r\nCookie: session={CANARY}\r\n".encode()
#: The gateway's place, and one of the worker; each is unknown to the other.
PATHS = ("/api/v1/messages", "/api/v1/echo", "/nowhere")
JSON = b"Content-Type: application/json\r\n"
PLAIN = b"Content-Type: text/plain\r\n"


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def head(path: str, *lines: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\n" % path.encode() + b"".join(lines)


@pytest.fixture
def nothing_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack(*_: object, **__: object) -> None:
        raise AssertionError("a body is unpacked")

    for name in ("ZLibDecompressor", "BrotliDecompressor", "ZSTDDecompressor"):
        monkeypatch.setattr(getattr(compression_utils, name), "__init__", unpack)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No alarm, and no secret in the log, whatever comes."""
    with caplog.at_level(logging.DEBUG):
        yield
    assert CANARY not in caplog.text
    assert [record for record in caplog.records if record.levelno >= logging.WARNING and _ours(record)] == []


def _ours(record: logging.LogRecord) -> bool:
    return "127.0.0.1:1 " not in record.getMessage() and '127.0.0.1:1"' not in record.getMessage()


@pytest.mark.usefixtures("nothing_unpacked")
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "GZIP", "gzip, gzip", "x-gzip", "identity, gzip"])
@pytest.mark.parametrize("form", [JSON, PLAIN])
@pytest.mark.parametrize("path", PATHS)
async def test_packed_bodies_are_refused_as_they_are(port: int, path: str, form: bytes, coding: str) -> None:
    body = gzip.compress(b" " * (1 << 20)) if "gzip" in coding.lower() else zlib.compress(b" " * (1 << 20))
    lines = (form, b"Content-Encoding: %b\r\n" % coding.encode())
    whole = head(path, *lines, b"Content-Length: %d\r\n\r\n" % len(body)) + body
    chunked = head(path, *lines, b"Transfer-Encoding: chunked\r\n\r\n") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)

    answers = [await answer_to(port, request) for request in (whole, chunked)]

    assert {status(answer) for answer in answers} <= {403, 404, 405, 415}
    if path != "/nowhere" and form is JSON:
        assert {status(answer) for answer in answers} <= {404, 415}


@pytest.mark.usefixtures("nothing_unpacked")
async def test_a_compressed_body_that_no_handler_reads_is_skipped_compressed(port: int) -> None:
    body = gzip.compress(b" " * (1 << 20))
    first = head("/nowhere", b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body))
    following = head("/nowhere", b"Connection: close\r\nContent-Length: 0\r\n\r\n")

    answer = await answer_to(port, first, body, following, leaves=False)

    assert answer.count(b"HTTP/1.1 4") == 2


async def test_a_body_that_says_it_is_as_it_is_is_taken(port: int) -> None:
    lines = (JSON, b"Content-Encoding: identity\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")

    answer = await answer_to(port, head("/api/v1/echo", *lines) + b"{}", leaves=False)

    assert status(answer) in (200, 404)


MALFORMED = {
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + CANARY.encode(),
    "no colon": f"GET / HTTP/1.1\r\nAuthorization Bearer {CANARY}\r\n\r\n".encode(),
    "a NUL": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + SECRET + b"X: \x00\r\n\r\n",
    "a name with a blank": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + SECRET + b"X Y: 1\r\n\r\n",
    "a method": f"{CANARY} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "a method of odd bytes": b"G\x00T / HTTP/1.1\r\n" + SECRET + b"\r\n",
    "a version": f"GET /{CANARY} HTTP/9.9\r\nHost: localhost\r\n\r\n".encode(),
    "a length": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + SECRET + b"Content-Length: -1\r\n\r\n",
    "two lengths": head("/", SECRET, b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    "length and chunks": head("/", SECRET, b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "many headers": head("/", SECRET, *(b"X-%d: 1\r\n" % number for number in range(200)), b"\r\n"),
    "a long header": head("/", SECRET, b"X: " + CANARY.encode() * 2_000, b"\r\n\r\n"),
    "a long address": b"GET /" + CANARY.encode() * 2_000 + b" HTTP/1.1\r\nHost: localhost\r\n" + SECRET + b"\r\n",
    "a bare line feed": b"GET / HTTP/1.1\nHost: localhost\n" + SECRET.replace(b"\r", b"") + b"X\n\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + CANARY.encode(),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_heads_are_refused_without_repeating_them(port: int, name: str) -> None:
    answer = await answer_to(port, MALFORMED[name])

    assert status(answer) in (400, 405, 431)
    assert CANARY.encode() not in answer
    assert len(answer) < 1_000


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", [JSON, PLAIN])
async def test_malformed_chunks_are_refused_without_repeating_them(port: int, path: str, kind: bytes) -> None:
    lines = (kind, SECRET, b"Transfer-Encoding: chunked\r\n\r\n")

    at_once = await answer_to(port, head(path, *lines) + CANARY.encode() + b"\r\n")
    later = await answer_to(port, head(path, *lines), b"5\r\nhello\r\n", CANARY.encode() + b"\r\n")

    for answer in (at_once, later):
        assert status(answer) in (400, 403, 404, 405, 415)
        assert answer.count(b"HTTP/1.1") == 1
        assert CANARY.encode() not in answer


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_breaks_off_is_no_alarm(port: int, path: str) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head(path, JSON, SECRET, b"Content-Length: 1000\r\n\r\n") + b"{")
    await asyncio.sleep(0.05)
    writer.transport.abort()
    await asyncio.sleep(0.05)


async def test_slow_bodies_are_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.5)
    for path in ("/api/v1/echo", "/api/v1/messages"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head(path, JSON, b"Content-Length: 1000\r\n\r\n") + b"{")
        async with asyncio.timeout(LIMIT_S):
            answer = await reader.readuntil(b"\r\n\r\n")
        assert status(answer) in (404, 408)
        writer.close()


async def test_more_than_a_body_may_have_is_refused_unread(port: int) -> None:
    for path in ("/api/v1/echo", "/api/v1/messages"):
        answer = await answer_to(port, head(path, JSON, b"Content-Length: 1000000000\r\n\r\n") + b"{")

        assert status(answer) in (404, 413)


EVIL = b"Origin: https://evil.example\r\n"


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_of_another_site_can_neither_read_nor_change_data(port: int, path: str) -> None:
    change = head(path, JSON, EVIL, b"Content-Length: 2\r\nConnection: close\r\n\r\n") + b"{}"
    asks_first = b"OPTIONS %b HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n" % path.encode()
    rebound = b"GET %b HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n" % path.encode()

    answers = [await answer_to(port, sent, leaves=False) for sent in (change, rebound)]
    preflight = await answer_to(port, asks_first + EVIL + b"Connection: close\r\n\r\n", leaves=False)

    assert [status(answer) for answer in answers] == [403, 421]
    assert status(preflight) in (401, 404, 405)
    for answer in (*answers, preflight):
        assert b"access-control-allow" not in answer.lower()
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
