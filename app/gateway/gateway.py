"""Puts a gateway together from its settings, runs it until a signal, and stops it in order."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from app.base.process.fatal import end_process, telling
from app.base.version import VERSION
from app.gateway import health, middlewares
from app.gateway.api import routes
from app.gateway.parts import GatewayParts
from app.gateway.refusals import cut_off, refused
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.gateway.spool.tally import SpoolTally, TallyCollector
from app.serve.messages.receipts import Receipts
from app.serve.web.server import GATEWAY, HttpServer, Refusals
from app.settings.settings import Settings

log = logging.getLogger(__name__)


#: The functions that add routes, middlewares and metrics to the application, in this order.
REGISTER: Final[tuple[Callable[[web.Application, GatewayParts], None], ...]] = (
    middlewares.register,
    health.register,
    routes.register,
)


class Gateway:
    """A gateway from its start to its end; it belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        """Open the spool in the settings' directory. Raises SpoolTaken or SpoolUnusable."""
        self._settings = settings
        self._connection, self._spool, tally = (
            KafkaConnection(settings.kafka, settings.topics, settings.gateway_path),
            Spool(settings.topics, settings.gateway, settings.gateway_path, end_process),
            SpoolTally(),
        )
        self.intake = Intake(settings.topics, self._connection, self._spool, tally, end_process)
        metrics = CollectorRegistry()
        metrics.register(TallyCollector(tally, self.intake, settings.gateway.spool_bytes))
        receipts = Receipts(settings.topics.requests, settings.topics.partitions)
        self._parts = GatewayParts(settings, self._connection, self.intake, receipts, metrics)
        self._server: HttpServer | None = None
        self._connecting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, and connect to Kafka as soon as it is up.

        Raises SettingInvalid for a bad certificate, and PortUnusable.
        """
        self._connecting = asyncio.get_running_loop().create_task(self._connection.run(self.intake.is_down))
        self._connecting.add_done_callback(telling(end_process))
        settings = self._settings
        web_app = web.Application(client_max_size=GATEWAY.body_bytes)
        for register in REGISTER:
            register(web_app, self._parts)
        process, port = settings.process, settings.gateway.port
        self._server = HttpServer(web_app, GATEWAY, process, port, Refusals(refused, cut_off))
        await self._server.start()
        waiting = self._spool.count
        log.info("listening on %s://%s:%d, %d records in the spool", process.scheme, process.host, port, waiting)

    async def stop(self) -> None:
        """Accept no more requests, answer those in progress, and leave the spool to the next start."""
        if self._server is not None:
            await self._server.stop()
        await self.intake.close()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        await self._connection.close()
        log.info("stopped; %d records stay in the spool", self._spool.count)


async def serve(settings: Settings) -> None:
    """Run a gateway until SIGTERM or SIGINT."""
    log.info("Punctual %s: gateway of %s, Kafka at %s", VERSION, settings.topics.app_id, settings.kafka.bootstrap)
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    gateway = Gateway(settings)
    await gateway.start()
    await stopped.wait()
    await gateway.stop()
