"""A server that ends bounds slow clients as it does before."""

import asyncio

import pytest

from app.base.listening import limits
from tests.app.base.listening.conftest import server, worker

UNFINISHED = (
    b"POST /api/v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


async def test_a_body_that_never_ends_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.5)
    served, port = server(worker())
    await served.start()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UNFINISHED)
    await asyncio.sleep(0.05)

    async with asyncio.timeout(30):  # aiohttp waits a minute
        await served.stop()
    writer.close()
