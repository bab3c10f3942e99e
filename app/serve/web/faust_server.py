"""Serves the API and the console on the web port of a Faust worker, in place of Faust's own pages."""

from collections.abc import Callable, Collection
from typing import Any, ClassVar

import faust
from aiohttp import web
from faust.web.drivers import aiohttp as driver

from app.base.errors import PortUnusable
from app.base.process.fatal import end_process
from app.engine.reports.state import WorkerState
from app.serve.web import guard, history
from app.serve.web.answers import live
from app.serve.web.problem import Problem, response
from app.serve.web.routes import register
from app.serve.web.server import WORKER, HttpServer
from app.settings.process import ProcessSettings


class WebServer(driver.Web):
    """Faust's web server without Faust's own pages: /table, /router, /graph and the statistics show internals.

    Faust reads these four lists in `Web._enabled_blueprints` (faust/web/base.py).
    """

    default_blueprints: ClassVar[list[Any]] = []
    production_blueprints: ClassVar[list[Any]] = []
    debug_blueprints: ClassVar[list[Any]] = []
    optional_blueprints: ClassVar[list[Any]] = []

    def __init__(self, app: faust.App, process: ProcessSettings, **options: Any) -> None:
        super().__init__(app, **options)
        self._process = process
        self._server = HttpServer(self.web_app, WORKER, process)
        self._early: HttpServer | None = None

    async def answer_early(self, reason: Callable[[], str | None]) -> None:
        """Answer `/health/live` with 200, and all other paths with 503 and the `reason` why the worker has not started.

        Health checks work from the first second: until a worker has reached its brokers, it can serve no other
        requests. Raises SettingInvalid for a bad certificate, and PortUnusable.
        """
        self._early = HttpServer(_early(reason), WORKER, self._process)
        await self._early.start()

    async def start_server(self) -> None:
        """Start to serve."""
        if self._early is not None:
            await self._early.stop()
        try:
            await self._server.start()
        except PortUnusable as error:  # Faust's own exit would hide the reason
            end_process(error)

    async def stop_server(self) -> None:
        """Stop."""
        await self._server.stop()
        await self._cleanup_app()


def _early(reason: Callable[[], str | None]) -> web.Application:
    async def starting(_: web.Request) -> web.Response:
        return response(Problem("not-ready", reason() or "starting", ready=False, recovery=[]))

    web_app = web.Application()
    web_app.add_routes([web.get("/health/live", live), web.route("*", "/{path:.*}", starting)])
    return web_app


def attach(
    faust_app: faust.App,
    state: WorkerState,
    process: ProcessSettings,
    hosts: Collection[str] = (),
    *,
    read_only: bool = False,
) -> WebServer:
    """Make the API and health checks a Faust app's web server, before its worker starts, and return the server.

    The server starts before recovery and answers 503 until `state.ready_reason()` is None; `state.reader` starts and
    stops with it. `web_in_thread` must stay off, because the state belongs to the worker's event loop. It accepts the
    host names of the machine, of `process` and of the state's own URL, and `hosts`, which may be patterns. With
    `read_only` it refuses changes. Raises RuntimeError if the app already has a web server.
    """
    if "web" in vars(faust_app):
        raise RuntimeError("attach the console before the web server of the Faust app (app.web) is used")
    server = WebServer(faust_app, process)
    web_app = server.web_app
    register(web_app, state)
    history.register(web_app, state)
    names = guard.names_of(process.host, state.worker_url, hosts)
    guard.register(web_app, names, read_only=read_only, only_json=True)
    web_app.on_startup.append(lambda _: state.reader.start())
    # Faust cleans the application up twice (Web.stop_server); stopping twice is harmless.
    web_app.on_cleanup.append(lambda _: state.reader.stop())
    faust_app.web = server
    return server
