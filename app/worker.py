"""The Faust application: `faust -A app worker` runs it, configured by the environment alone."""

import asyncio
import logging
import os
import sys
from typing import Any

import faust
import uvloop
from aiokafka.errors import KafkaError

from app.base.clock import Clock
from app.base.errors import ClusterUnusable, DataDirectoryUnusable, PunctualError
from app.base.process import watchdog
from app.base.process.datadir import member_id
from app.base.process.fatal import end_process
from app.base.process.library_logs import LibraryLogFilter
from app.base.process.log import JsonFormatter, RateLimitFilter
from app.engine import command_line
from app.engine.engine import Engine
from app.engine.faust_host.chunk import ChunkSchema
from app.engine.faust_host.consumer import Transport
from app.engine.faust_host.handover import Assignor, Tables
from app.engine.ingest.quotas import namespace_rule
from app.gateway.command import gateway
from app.kafka.patches import lost_connections, side_by_side
from app.kafka.wire import connection, live_client
from app.ops.doctor import examiner
from app.ops.doctor.command import doctor
from app.ops.doctor.process import doubts
from app.ops.multiprocess import option
from app.ops.repartition.command import repartition
from app.serve.access import access
from app.serve.actions import job_routes, message_desk
from app.serve.actions import routes as action_routes
from app.serve.actions.actions import Actions
from app.serve.actions.job_log import JobLog
from app.serve.actions.jobs import Jobs
from app.serve.console import console
from app.serve.dead_letters import routes as dead_letters_routes
from app.serve.dead_letters.dead_letters import DeadLetters
from app.serve.openapi import document
from app.serve.search import namespaces as namespaces_routes
from app.serve.search import routes as search_routes
from app.serve.search.search import Search
from app.serve.web.faust_server import attach
from app.serve.web.server import WORKER, bound_bodies
from app.settings.kafka import KafkaSettings
from app.settings.settings import Settings
from punctual.client.faust_methods import DelayMethods
from punctual.security.reason import reason
from tables import DelayTable, TableError

log = logging.getLogger(__name__)

_HEARTBEAT_S = 1.5
#: Seconds after which a slow start is logged, and interval of further log lines.
_PATIENCE_S = 5.0
_COMMIT_S = 0.25


class Worker(faust.Worker):
    """Faust's worker on uvloop, without its last second of waiting (mode/worker.py:317).

    In that second no worker would have its partitions.
    """

    def __init__(self, *args: Any, loop: asyncio.AbstractEventLoop, **kwargs: Any) -> None:
        """Run on a uvloop event loop instead of `loop`, which is unused yet.

        A policy for the whole process would affect programs that import the app to send messages.
        """
        loop.close()  # otherwise mode would still return it as the current one (mode/utils/loops.py)
        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
        lost_connections.install()
        connection.install()
        live_client.install()
        super().__init__(*args, loop=loop, **kwargs)

    def on_setup_root_logger(self, logger: logging.Logger, level: int) -> None:
        """Leave out repetitions, and the spinner of quieter levels (faust/worker.py, _setup_spinner_handler).

        The spinner handles records of any level, so records would be created for all of aiokafka's debug logging: 6 %
        of the CPU at 500 messages a second.
        """
        self.spinner = None
        super().on_setup_root_logger(logger, level)
        for handler in logger.handlers:
            handler.addFilter(RateLimitFilter())
            if self.app.settings.process.log_format == "json":
                handler.setFormatter(JsonFormatter())
            if level > logging.DEBUG:
                handler.addFilter(LibraryLogFilter())

    def _on_sigint(self) -> None:
        """Stop as SIGTERM does, without output on the terminal (mode/worker.py:235)."""
        self._on_sigterm()

    async def _sentinel_task(self) -> None:
        await asyncio.sleep(0)


class Punctual(DelayMethods, faust.App):
    """The delay engine as a Faust app; `app.delay(...)` and related methods schedule messages from within."""

    settings: Settings
    engine: Engine

    def _init_fixups(self) -> list[Any]:
        """Return no fixups: they start code named by DJANGO_SETTINGS_MODULE or a package (faust/app/base.py)."""
        return []

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    async def on_first_start(self) -> None:
        """Claim the data directory and create its parents, which Faust would not (faust/app/base.py:1973)."""
        watchdog.watch_parent()
        try:
            access.check(self.settings.process, self.settings.web)
            self.engine.claim()
            await self.web.answer_early(self.engine.view.ready_reason)
            await super().on_first_start()
            for doubt in doubts(self.settings.destinations, self.settings.web, os.environ):
                log.warning("%s", doubt)
        except PunctualError as error:
            end_process(error)
        except OSError as error:
            end_process(DataDirectoryUnusable(self.settings.data_path, error))

    async def on_start(self) -> None:
        """Connect and check everything before joining the group."""
        waiting = asyncio.create_task(self._say_what_is_waited_for())
        try:
            await self.engine.start()
            self.conf.consumer_group_instance_id = member_id(self.settings.data_path)
        except (PunctualError, TableError) as error:
            end_process(error)
        except KafkaError as error:
            why = await reason(self.settings.kafka.bootstrap, self.settings.kafka.options())
            end_process(ClusterUnusable(self.settings.kafka.bootstrap, why or error))
        finally:
            waiting.cancel()
        await super().on_start()

    async def _say_what_is_waited_for(self) -> None:
        """Log repeatedly that a slow start is waiting for Kafka."""
        began = Clock.monotonic_ms()
        while True:
            await asyncio.sleep(_PATIENCE_S)
            passed_s = (Clock.monotonic_ms() - began) // 1_000
            log.warning("still starting after %d s: waiting for Kafka at %s", passed_s, self.settings.kafka.bootstrap)

    async def on_stop(self) -> None:
        """Finish messages in flight and close the databases before leaving the group."""
        await self.engine.stop()
        await self.aclose()
        await super().on_stop()

    async def on_shutdown(self) -> None:
        """Close the connections; the consumer has left the group."""
        await super().on_shutdown()
        await self.engine.disconnect()


def create_app(settings: Settings) -> Punctual:
    """Create the app that serves an installation.

    Raises PunctualError if a setting is invalid.
    """
    app = Punctual(settings.topics.app_id, **faust_options(settings))
    app.settings = settings
    app.delay_app_id = settings.topics.app_id
    table = app.tables.add(
        DelayTable(
            app,
            name="delays",
            partitions=settings.topics.partitions,
            key_type=bytes,
            value_type=bytes,
            now_ms=Clock.wall_ms,
            monotonic_ms=Clock.monotonic_ms,
            namespace_rule=namespace_rule(settings.topics.namespaces, settings.topics.inputs),
        )
    )
    app.engine = Engine(settings, table, app)
    server = attach(app, app.engine.view, settings.process, settings.web.hosts, read_only=settings.read_only)
    web_app = server.web_app
    job_log, search = JobLog(app.engine), Search(app.engine)
    actions, dead_letters = Actions(app.engine, job_log), DeadLetters(app.engine, job_log.marked)
    access.register(web_app, settings, search.tell_signed_out)
    bound_bodies(web_app, WORKER)
    search_routes.register(web_app, search)
    namespaces_routes.register(web_app, app.engine.view, settings.topics, settings.destinations)
    dead_letters_routes.register(web_app, dead_letters, job_log.read)
    examiner.register(web_app, app.engine)
    jobs = Jobs(app.engine, search, actions.audit, job_log, dead_letters)
    app.engine.before_stop = jobs.end
    message_desk.register(web_app, app.engine, actions, search)
    web_app.router.add_get("/api/v1/openapi.json", document.show)
    action_routes.register(web_app, actions, dead_letters)
    job_routes.register(web_app, jobs, settings.topics.namespaces)
    console.register(web_app, app.engine.view, read_only=settings.read_only)
    inputs = app.topic(
        *settings.topics.inputs, settings.topics.forwards, schema=ChunkSchema(), partitions=settings.topics.partitions
    )

    @app.agent(inputs, name="ingest")
    async def ingest(stream: Any) -> None:
        """Hand chunks of requests to their partitions."""
        async for event in stream.events():
            try:
                for chunk in event.value.unwrap():
                    app.engine.hand_over(chunk)
            except Exception as error:  # noqa: BLE001 - a crashed agent would leave the process idle
                end_process(error)

    @app.on_partitions_revoked.connect
    async def revoke(*_: Any, **__: Any) -> None:
        """Finish messages in flight before other workers can get the partitions."""
        await app.engine.ownership.revoke()

    return app


def faust_options(settings: Settings) -> dict[str, Any]:
    """Return Faust's options for an installation, without the features that Punctual replaces."""
    return {
        "env": {},  # otherwise Faust's own variables win: WEB_BIND, BROKER_URL, APP_VERSION (types/settings/base.py)
        "broker": [f"kafka://{server}" for server in settings.kafka.bootstrap.split(",")],
        "broker_credentials": credentials(settings.kafka),
        "broker_session_timeout": settings.engine.session_timeout_ms / 1_000,
        "broker_heartbeat_interval": _HEARTBEAT_S,
        "broker_commit_interval": _COMMIT_S,
        "broker_max_poll_records": 2_000,
        "consumer_auto_offset_reset": "earliest",
        "datadir": str(settings.data_path),
        "store": "memory://",
        "topic_partitions": settings.topics.partitions,
        "topic_replication_factor": settings.topics.replication_factor,
        "topic_allow_declare": False,
        "topic_disable_leader": True,
        "table_standby_replicas": 0,
        "stream_wait_empty": False,
        "canonical_url": settings.process.url,
        "web_application_options": {"client_max_size": WORKER.body_bytes},
        "web_bind": settings.process.host,
        "web_host": settings.process.host,
        "web_port": settings.process.port,
        "Worker": Worker,
        "TableManager": Tables,
        "PartitionAssignor": Assignor,
    }


def credentials(kafka: KafkaSettings) -> Any:
    """Return Faust's form of the security settings, None if there are none."""
    options = kafka.options()
    context, tokens = options.get("ssl_context"), options.get("sasl_oauth_token_provider")
    if tokens is not None:
        return faust.OAuthCredentials(oauth_cb=tokens, ssl_context=context)
    if "sasl_mechanism" in options:
        return faust.SASLCredentials(
            mechanism=options["sasl_mechanism"],
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)


side_by_side.install()
command_line.install(doctor, gateway, repartition)
try:
    app = create_app(Settings.from_env())
except PunctualError as error:
    sys.exit(f"punctual: {error}")
option.install(app.settings)
