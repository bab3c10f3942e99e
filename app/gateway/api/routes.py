"""The routes at which a gateway accepts requests and commands."""

from collections.abc import AsyncIterator, Callable

from aiohttp import web

from app.base.clock import Clock
from app.engine.ingest.quotas import Quotas
from app.gateway.api.outcomes import CommandOutcomes
from app.gateway.api.workers import Workers
from app.gateway.confluent import records
from app.gateway.desk.admission import GatewayAdmission
from app.gateway.desk.desk import Desk
from app.gateway.desk.message_desk import GatewayDesk
from app.gateway.parts import GatewayParts
from app.serve.messages import routes
from app.serve.messages.acceptance import Acceptance
from app.serve.openapi import document
from app.serve.search.peers import Peers
from app.serve.web.problem import meaning
from app.serve.web.problem_types import PATH


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the routes to an application that has not started; their parts end with it."""
    settings = parts.settings
    acceptance = Acceptance(settings)
    outcomes = CommandOutcomes(settings.topics, parts.connection)
    peers = Peers(dict, "", settings.web.secret, settings.process.tls_cert)
    workers = Workers(settings.kafka, settings.topics, peers)
    workers.register(web_app)
    quotas = Quotas(settings.topics, {}, (), workers.reports, lambda: Clock.monotonic_ms() / 1000)
    desk = Desk(acceptance, GatewayAdmission(settings, parts.connection, quotas.is_full), parts.intake, parts.receipts)
    routes.register(web_app, GatewayDesk(settings.topics, desk, outcomes, workers), settings.topics)
    if settings.gateway.confluent == "on":
        records.register(web_app, settings.topics, desk)
    web_app.cleanup_ctx.append(_lasting(outcomes, workers))
    web_app.add_routes(
        [
            web.get("/api/v1/openapi.json", document.show, allow_head=False),
            web.get(PATH + "{name}", meaning, allow_head=False),
        ]
    )


def _lasting(outcomes: CommandOutcomes, workers: Workers) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return a context that starts and closes parts with the application."""

    async def last(_: web.Application) -> AsyncIterator[None]:
        await workers.start()
        yield
        outcomes.close()
        await workers.close()

    return last
