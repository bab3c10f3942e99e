"""Puts a gateway together from its settings, runs it until a signal, and stops it in order."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from app.base.listening.connections import ConnectionLimits, Runner
from app.base.listening.limits import BACKLOG
from app.base.process.fatal import end_process, telling
from app.base.version import VERSION
from app.gateway import access, health
from app.gateway.api import error_answers, routes
from app.gateway.callers.refusals import GatewayRefusals
from app.gateway.desk.receipts import Receipts
from app.gateway.http import browsers, moved
from app.gateway.keys import once
from app.gateway.parts import GatewayParts
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.errors import GatewayPortUnusable
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.gateway.spool.tally import SpoolTally, TallyCollector
from app.settings.settings import Settings

log = logging.getLogger(__name__)

#: The functions that add routes, middlewares and metrics to the application, in this order.
REGISTER: Final[tuple[Callable[[web.Application, GatewayParts], None], ...]] = (
    error_answers.register,
    moved.register,
    browsers.register,
    access.register,
    once.register,
    health.register,
    routes.register,
)
_FAREWELL_S: Final = 10.0
#: 64 headers of 4 KiB are 256 KiB a connection at most, so the heads of a thousand connections take at most 256 MiB.
#: One address gets half, so that it cannot keep the others out; a proxy's connections are reused, and half is plenty.
BOUNDS: Final = ConnectionLimits(most=1_000, most_of_one=500, header_bytes=4_096)


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
        self._runner: web.AppRunner | None = None
        self._connecting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, and connect to Kafka as soon as it is up. Raises GatewayPortUnusable."""
        self._connecting = asyncio.get_running_loop().create_task(self._connection.run(self.intake.is_down))
        self._connecting.add_done_callback(telling(end_process))
        settings = self._settings
        web_app = web.Application(client_max_size=access.BODY_BYTES)
        for register in REGISTER:
            register(web_app, self._parts)
        self._runner = Runner(web_app, GatewayRefusals(), BOUNDS, shutdown_timeout=_FAREWELL_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, settings.process.host, settings.gateway.port, backlog=BACKLOG).start()
        except OSError as error:
            raise GatewayPortUnusable(settings.process.host, settings.gateway.port, error) from error
        waiting = self._spool.count
        log.info(
            "listening on http://%s:%d, %d records in the spool", settings.process.host, settings.gateway.port, waiting
        )

    async def stop(self) -> None:
        """Accept no more requests, answer those in progress, and leave the spool to the next start."""
        if self._runner is not None:
            await self._runner.cleanup()
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
