"""Bodies of acts are read whole, however they come."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from app.serve.actions.routes import CorrectionRequest
from app.serve.messages import json_input
from app.serve.web.problem import Problem


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async def take(request: web.Request) -> web.Response:
        try:
            body = await json_input.read(request, CorrectionRequest)
            json_input.check_headers(body.headers or ())
            return web.json_response(len(str(body.value)))
        except Problem as problem:
            return web.json_response(problem.detail, status=problem.status)
        except web.HTTPRequestEntityTooLarge:
            return web.json_response("too large", status=413)

    app = web.Application(client_max_size=1 << 20)
    app.router.add_post("/", take)
    made = TestServer(app)
    await made.start_server()
    yield made
    await made.close()


async def answer_to(server: TestServer, value: str | bytes, parts: int) -> tuple[int, Any]:
    """Send a value, or the bytes of a body, in parts, and return status and JSON of the answer."""
    raw = value if isinstance(value, bytes) else msgspec.json.encode({"value": value})
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(raw))
    size = -(-len(raw) // parts)
    for begin in range(0, len(raw), size):
        writer.write(raw[begin : begin + size])
        await writer.drain()
        await asyncio.sleep(0.01)
    first, _, said = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(first.split()[1]), msgspec.json.decode(said)


@pytest.mark.parametrize(("size", "parts"), [(5, 1), (5, 3), (200_000, 1), (200_000, 7), (1_000_000, 2)])
async def test_a_body_is_read_to_its_end(server: TestServer, size: int, parts: int) -> None:
    assert await answer_to(server, "x" * size, parts) == (200, size)


async def test_a_body_that_is_too_large_is_refused(server: TestServer) -> None:
    assert (await answer_to(server, "x" * (1 << 20), 3))[0] == 413


@pytest.mark.parametrize(
    ("raw", "status", "said"),
    [
        (b"[" * 1_000_000, 413, "more than 100,000 commas and brackets"),
        (b'{"value":[' + b"0," * 200_000 + b"0]}", 413, "more than 100,000 commas and brackets"),
        (b'{"value":' + b"[" * 50_000 + b"]" * 50_000 + b"}", 422, "got `array`"),
        (b'{"value":' + b"9" * 1_000_000 + b"}", 422, "out of range"),
        (b'{"value":1e999999999}', 422, "out of range"),
        (b'{"value":"\xff"}', 400, "is not JSON"),
        (b'{"headers":{' + b",".join(b'"%d":""' % n for n in range(1_001)) + b"}}", 413, "has 1,001 headers"),
        (b'{"headers":[' + b'["a",""],' * 1_000 + b'["a",""]]}', 422, "got `array`"),
        (b'{"value":"\\ud800"}', 400, "is not JSON"),
    ],
)
async def test_a_json_bomb_is_refused(server: TestServer, raw: bytes, status: int, said: str) -> None:
    answered, sentence = await answer_to(server, raw, 1)

    assert (answered, said in sentence) == (status, True), sentence


def test_a_sentence_does_not_quote_a_whole_body() -> None:
    assert Problem("bad-json", "short").detail == "short"
    assert len(Problem("bad-json", "x" * (8 << 20)).detail) == 1_001
