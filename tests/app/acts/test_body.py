"""Bodies of acts are read whole, however they come."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from app.acts import body as module
from app.acts.body import BadBody, body_of


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async def take(request: web.Request) -> web.Response:
        try:
            return web.json_response(len((await body_of(request, ("value",)))["value"]))
        except BadBody as error:
            return web.json_response(str(error), status=400)

    app = web.Application()
    app.router.add_post("/", take)
    made = TestServer(app)
    await made.start_server()
    yield made
    await made.close()


async def answer_to(server: TestServer, value: str, parts: int) -> tuple[int, Any]:
    """Send a body in parts, and return status and JSON of the answer."""
    raw = msgspec.json.encode({"value": value})
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(raw))
    size = -(-len(raw) // parts)
    for begin in range(0, len(raw), size):
        writer.write(raw[begin : begin + size])
        await writer.drain()
        await asyncio.sleep(0.01)
    head, _, said = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), msgspec.json.decode(said)


@pytest.mark.parametrize(("size", "parts"), [(5, 1), (5, 3), (200_000, 1), (200_000, 7), (1_000_000, 2)])
async def test_a_body_is_read_to_its_end(server: TestServer, size: int, parts: int) -> None:
    assert await answer_to(server, "x" * size, parts) == (200, size)


async def test_one_that_is_too_large_is_refused(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_BYTES", 1 << 20)

    assert await answer_to(server, "x" * (1 << 20), 3) == (400, "the body is larger than 1 MiB")
