"""The routes at which a gateway accepts requests and commands, and passes on reads."""

from collections.abc import AsyncIterator

from aiohttp import web

from app.gateway.confluent import records
from app.gateway.desk import GatewayDesk
from app.gateway.parts import GatewayParts
from app.gateway.workers import Workers
from app.serve.messages import routes
from app.serve.openapi import document
from app.serve.openapi.installation import READS
from app.serve.search.peers import Peers
from app.serve.web.problem import meaning
from app.serve.web.problem_types import PATH


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the routes to an application that has not started; their parts end with it."""
    settings, topics = parts.settings, parts.settings.topics
    workers = Workers(settings.kafka, topics, Peers(dict, "", settings.web.secret, settings.process.tls_cert))
    desk = GatewayDesk(parts, workers)
    web_app.add_routes([web.get(path, workers.show) for path, _, _ in READS])
    routes.register(web_app, desk, topics)
    if settings.gateway.confluent == "on":
        records.register(web_app, topics, desk)
    web_app.router.add_get("/api/v1/openapi.json", document.show, allow_head=False)
    web_app.router.add_get(PATH + "{name}", meaning, allow_head=False)

    async def run(_: web.Application) -> AsyncIterator[None]:
        await workers.start()
        yield
        desk.close()
        await workers.close()

    web_app.cleanup_ctx.append(run)
