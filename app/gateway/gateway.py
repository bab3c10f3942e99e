"""Puts a gateway together from its settings, runs it until a signal, and stops it in order."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Final

from aiohttp import web

from app.base.process.fatal import end_process, telling
from app.base.version import VERSION
from app.gateway import health, middlewares, routes
from app.gateway.middlewares import cut_off, refused
from app.gateway.parts import GatewayParts
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.serve.web.server import GATEWAY, HttpServer, Refusals
from app.settings.settings import Settings

log = logging.getLogger(__name__)

#: The functions that add routes, middlewares and metrics to the application, in this order.
REGISTER: Final[tuple[Callable[[web.Application, GatewayParts], None], ...]] = (
    middlewares.register,
    health.register,
    routes.register,
)


async def serve(settings: Settings) -> None:
    """Run a gateway until SIGTERM or SIGINT, answer the requests in progress, and leave the spool to the next start.

    Raises SpoolTaken or SpoolUnusable, SettingInvalid for a bad certificate, and PortUnusable.
    """
    topics, process, port, path = settings.topics, settings.process, settings.gateway.port, settings.gateway_path
    log.info("Punctual %s: gateway of %s, Kafka at %s", VERSION, topics.app_id, settings.kafka.bootstrap)
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    connection = KafkaConnection(settings.kafka, topics, path)
    spool = Spool(topics, settings.gateway, path, end_process)
    intake = Intake(topics, connection, spool, end_process)
    connecting = loop.create_task(connection.run(intake.is_down))
    connecting.add_done_callback(telling(end_process))
    web_app, parts = web.Application(client_max_size=GATEWAY.body_bytes), GatewayParts(settings, connection, intake)
    for register in REGISTER:
        register(web_app, parts)
    server = HttpServer(web_app, GATEWAY, process, port, Refusals(refused, cut_off))
    await server.start()
    log.info("listening on %s://%s:%d, %d records in the spool", process.scheme, process.host, port, spool.count)
    await stopped.wait()
    await server.stop()
    await intake.close()
    connecting.cancel()
    await asyncio.wait({connecting})
    await connection.close()
    log.info("stopped; %d records stay in the spool", spool.count)
