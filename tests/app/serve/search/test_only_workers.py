"""The installation's secret, over a real connection."""

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from app.serve.search.routes import only_workers
from app.serve.web.problem import problems


@pytest.mark.parametrize(
    ("secret", "shown", "path", "status"),
    [
        ("sesame", "Bearer sesame", "/api/v1/local/x", 200),
        ("sesame", "Bearer other", "/api/v1/local/x", 401),
        ("sesame", "Bearer sesame2", "/api/v1/local/x", 401),
        ("sesame", "sesame", "/api/v1/local/x", 401),
        ("sesame", "", "/api/v1/local/x", 401),
        ("sesame", "", "/api/v1/%6cocal/x", 401),
        ("sesame", "", "/api/v1/x", 200),
        ("", "", "/api/v1/local/x", 200),
        ("säsam", "Bearer säsam", "/api/v1/local/x", 200),
    ],
)
async def test_only_who_knows_the_secret_is_told(secret: str, shown: str, path: str, status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="told")

    made = web.Application(middlewares=[problems, only_workers(secret)])
    made.add_routes([web.get("/api/v1/local/x", answer), web.get("/api/v1/x", answer)])
    headers = {"Authorization": shown} if shown else {}
    async with TestServer(made) as server, ClientSession(str(server.make_url("/"))) as session:
        found = await session.get(path, headers=headers)
        assert found.status == status
        assert ("told" in await found.text()) == (status == 200)
