"""Bodies of one client leave room for others."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from app.base.listening.bodies import Bodies
from app.serve.web.server import Refusals


def request_of(address: str, length: int) -> Any:
    """Return a request with a body that has not come yet."""
    headers = SimpleNamespace(getall=lambda _name, default: default)
    return SimpleNamespace(body_exists=True, content_length=length, remote=address, headers=headers)


async def test_bodies_of_one_address_leave_room_for_those_of_others() -> None:
    free, bodies = asyncio.Event(), Bodies(Refusals(), 10, 100)

    async def handler(_request: web.Request) -> web.StreamResponse:
        await free.wait()
        return web.Response()

    many = [asyncio.create_task(bodies.check(request_of("192.0.2.1", 10), handler)) for _ in range(20)]
    await asyncio.sleep(0)
    other = asyncio.create_task(bodies.check(request_of("192.0.2.2", 10), handler))
    await asyncio.sleep(0.01)
    assert (sum(not one.done() for one in many), other.done()) == (5, False)
    free.set()
    await asyncio.gather(other, *many, return_exceptions=True)
    assert (await bodies.check(request_of("192.0.2.1", 10), handler)).status == 200
