"""`faust -A app gateway`: accepts messages over HTTP, even while Kafka is down."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from app.base.errors import PunctualError, SettingInvalid
from app.base.process.fatal import end_process
from app.base.process.library_logs import LibraryLogFilter
from app.base.process.log import JsonFormatter, RateLimitFilter
from app.settings.gateway import SPOOL
from app.settings.settings import Settings
from app.settings.unknown import unknown

log = logging.getLogger(__name__)

_HELP = """Run the HTTP gateway until SIGTERM or Ctrl-C. It writes messages to Kafka, or to disk while Kafka is down.

Configure it with environment variables: KAFKA_BOOTSTRAP_SERVERS, DELAY_APP_ID and DELAY_PARTITIONS as for the workers,
and those that begin with DELAY_GATEWAY_: docs/reference/settings.md. See docs/how-to/gateway.md.
"""
_LEVELS = ("debug", "info", "warning", "error")
_FORMAT = "[%(asctime)s] [%(process)s] [%(levelname)s] %(message)s"


@click.command("gateway", help=_HELP)
@click.option("-l", "--loglevel", type=click.Choice(_LEVELS), default="info", show_default=True)
def gateway(loglevel: str) -> None:
    """Run a gateway with the settings of the environment."""
    settings = Settings.from_env()
    _check_former_place(settings, os.environ)
    _log(loglevel, settings.process.log_format)
    for sentence in unknown(os.environ):
        log.warning("%s", sentence)
    # Imported here because `faust -A app worker` does not use them.
    import uvloop  # noqa: PLC0415

    from app.gateway.gateway import serve  # noqa: PLC0415
    from app.kafka.patches import lost_connections  # noqa: PLC0415
    from app.kafka.wire import connection, live_client  # noqa: PLC0415

    for module in (lost_connections, connection, live_client):
        module.install()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except PunctualError as error:
        end_process(error)


def _check_former_place(settings: Settings, env: Mapping[str, str]) -> None:
    """Raise SettingInvalid if the directory that an earlier version used still has a spool."""
    former = env.get("DELAY_GATEWAY_DATADIR", "")
    if former and (Path(former) / SPOOL).is_dir() and settings.gateway_path.resolve() != Path(former).resolve():
        why = (
            "it is no longer a setting, and this directory has a spool, whose messages were acknowledged. Set DATADIR "
            "to this directory instead"
        )
        raise SettingInvalid("DELAY_GATEWAY_DATADIR", repr(former), why)


def _log(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(_FORMAT))
    handler.addFilter(RateLimitFilter())
    if level != "debug":
        handler.addFilter(LibraryLogFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
