"""The three servers of ours, each as it is run, without Kafka."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from app.gateway import gateway as gateways
from app.gateway.middlewares import cut_off, refused
from app.gateway.parts import GatewayParts
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.ops.multiprocess.front import Front
from app.serve.web import guard, problem
from app.serve.web.server import GATEWAY as GATEWAY_LIMITS
from app.serve.web.server import WORKER, HttpServer, Refusals, ServerLimits, bound_bodies
from app.settings.settings import Settings
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S

GATEWAY = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "DELAY_DESTINATIONS": "*",
    "DELAY_PARTITIONS": "4",
}


async def echo(request: web.Request) -> web.Response:
    """Answer with how long the body is."""
    return web.json_response({"length": len(await request.read())})


def worker() -> web.Application:
    """Return an application with what surrounds a worker's."""
    web_app = web.Application()
    web_app.middlewares.append(problem.problems)
    guard.register(web_app, ["localhost"], only_json=True)
    bound_bodies(web_app, WORKER)
    web_app.add_routes([web.post("/api/v1/echo", echo), web.get("/api/v1/echo", echo)])
    return web_app


async def started(runner: web.AppRunner) -> int:
    """Start to serve; return the port."""
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return port


def server(
    web_app: web.Application, limits: ServerLimits = WORKER, refusals: Refusals | None = None, **env: str
) -> tuple[HttpServer, int]:
    """Return a server with the settings `env`, and its port."""
    port = free_port()
    process = Settings.from_env({"PORT": str(port), **env}).process
    return HttpServer(web_app, limits, process, refusals=refusals), port


def crash(error: BaseException) -> None:
    raise error


def gateway(path: Path) -> web.Application:
    """Return a gateway that has never seen Kafka."""
    settings = Settings.from_env({**GATEWAY, "DATADIR": str(path)})
    connection, spool = (
        KafkaConnection(settings.kafka, settings.topics, settings.gateway_path),
        Spool(settings.topics, settings.gateway, settings.gateway_path, crash),
    )
    intake = Intake(settings.topics, connection, spool, crash)
    parts = GatewayParts(settings, connection, intake)
    web_app = web.Application(client_max_size=GATEWAY_LIMITS.body_bytes)
    for register in gateways.REGISTER:
        register(web_app, parts)
    web_app.on_cleanup.append(lambda _: intake.close())
    return web_app


@pytest.fixture(params=["worker", "front", "gateway"])
async def port(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[int]:
    """The port of each server in turn."""
    if request.param == "gateway":
        made, found = server(gateway(tmp_path / "gateway"), GATEWAY_LIMITS, Refusals(refused, cut_off))
    else:
        made, found = server(worker())
    await made.start()
    servers = [made]
    if request.param == "front":
        process = SimpleNamespace(number=1, url=f"http://127.0.0.1:{found}")
        child = SimpleNamespace(process=process, missing=None, ready=True, restarts=0)
        supervisor: Any = SimpleNamespace(children=[child], proof="between us")
        found = free_port()
        servers.append(
            await Front(supervisor, ["localhost", "shop.example"]).serve(
                Settings.from_env({"PORT": str(found)}).process
            )
        )
    yield found
    for one in reversed(servers):
        await one.stop()


async def answer_to(port: int, data: bytes, *more: bytes, leaves: bool = True) -> bytes:
    """Send bytes on a new connection, and `more` a moment later; return the whole response.

    A client that `leaves` sends no more afterwards, and a request that is not answered by then may not be.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in (data, *more):
            writer.write(piece)
            await asyncio.sleep(0.01)
        if leaves:
            writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            return await reader.read()
    finally:
        writer.close()
