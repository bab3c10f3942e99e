"""The answers of the API, as pages get them."""

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.serve.console.api import ConsoleApi
from app.serve.web.problem import Problem, problems


async def test_an_unknown_path_of_the_api_is_absent_and_an_unknown_message_is_an_error() -> None:
    web_app = web.Application(middlewares=[problems])

    async def missing(_: web.Request) -> web.Response:
        raise Problem("unknown-message", "no such message")

    async def page(request: web.Request) -> web.Response:
        api = ConsoleApi(web_app, request)
        return web.json_response([(await api.get(path)).absent for path in ("/findings", "/messages")])

    web_app.add_routes([web.get("/", page), web.get("/api/v1/messages", missing)])
    async with TestClient(TestServer(web_app)) as client:
        assert await (await client.get("/")).json() == [True, False]
