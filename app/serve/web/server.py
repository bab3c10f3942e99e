"""Serves the API and the console on the web port of a Faust worker, in place of Faust's own pages."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, ClassVar, Final

import faust
from aiohttp import web
from faust.web.drivers import aiohttp as driver

from app.base.errors import WebPortUnusable
from app.base.listening.connections import Runner
from app.base.process.fatal import end_process
from app.engine.reports.state import WorkerState
from app.serve.web import guard, history, origin
from app.serve.web.answers import as_json
from app.serve.web.problem import RETRY_AFTER, Problem, response
from app.serve.web.refusals import BOUNDS, WebRefusals
from app.serve.web.routes import register

#: How long requests in progress may continue when the server stops, before they are cancelled. aiohttp's default is a
#: minute.
_FINISH_S: Final = 2.0


class EarlyServer:
    """Answers `/health/live` with 200, and all other paths with 503 and the reason why the worker has not started.

    Health checks work from the first second: until a worker has reached its brokers, it can serve no other requests.
    """

    def __init__(self, host: str, port: int, reason: Callable[[], str | None]) -> None:
        """Serve at `host` and `port`; `reason` returns why the worker has not started."""
        self._host, self._port, self._reason = host, port, reason
        app = web.Application()
        app.router.add_get("/health/live", self._live)
        app.router.add_route("*", "/{path:.*}", self._starting)
        self._runner = Runner(app, WebRefusals(), BOUNDS)

    async def start(self) -> None:
        """Start to serve. Raises WebPortUnusable if the server cannot listen on the address."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            raise WebPortUnusable(self._host, self._port, error) from error

    async def stop(self) -> None:
        """Stop, so that the worker's own server can use the address."""
        await self._runner.cleanup()

    async def _live(self, _: web.Request) -> web.Response:
        return as_json({"live": True})

    async def _starting(self, _: web.Request) -> web.Response:
        return response(
            Problem("not-ready", self._reason() or "starting", headers=RETRY_AFTER, ready=False, recovery=[])
        )


class WebServer(driver.Web):
    """Faust's web server without Faust's own pages: /table, /router, /graph and the statistics show internals.

    Faust reads these four lists in `Web._enabled_blueprints` (faust/web/base.py).
    """

    default_blueprints: ClassVar[list[Any]] = []
    production_blueprints: ClassVar[list[Any]] = []
    debug_blueprints: ClassVar[list[Any]] = []
    optional_blueprints: ClassVar[list[Any]] = []

    def __init__(self, app: faust.App, **options: Any) -> None:
        """Serve as Faust's own server does, with limits for connections."""
        super().__init__(app, **options)
        self._runner = Runner(self.web_app, WebRefusals(), BOUNDS, shutdown_timeout=_FINISH_S)
        self._early: EarlyServer | None = None

    async def answer_early(self, reason: Callable[[], str | None]) -> None:
        """Answer health checks before the worker has started; `reason` returns why it has not.

        Raises WebPortUnusable if the server cannot listen on the address.
        """
        self._early = EarlyServer(self.app.conf.web_bind, self.app.conf.web_port, reason)
        await self._early.start()

    async def start_server(self) -> None:
        """Start to serve."""
        await self._runner.setup()
        if self._early is not None:
            await self._early.stop()
        try:
            await self._create_site().start()
        except OSError as error:  # Faust's own exit would hide the reason
            end_process(WebPortUnusable(self.app.conf.web_bind, self.app.conf.web_port, error))


def attach(
    faust_app: faust.App, state: WorkerState, hosts: Collection[str] = (), *, read_only: bool = False
) -> WebServer:
    """Make the API and health checks a Faust app's web server, before its worker starts, and return the server.

    The server starts before recovery and answers 503 until `state.ready_reason()` is None; `state.reader` starts and
    stops with it. Address and port are the app's `web_bind` and `web_port`; `web_in_thread` must stay off, because the
    state belongs to the worker's event loop. It accepts the host names of the machine, of `web_bind` and of the state's
    own URL, and `hosts`, which may be patterns. With `read_only` it refuses changes. Raises RuntimeError if the app
    already has a web server.
    """
    if "web" in vars(faust_app):
        raise RuntimeError("attach the console before the web server of the Faust app (app.web) is used")
    server = WebServer(faust_app)
    register(server.web_app, state)
    history.register(server.web_app, state)
    names = guard.names_of(faust_app.conf.web_bind, state.worker_url, hosts)
    server.web_app.middlewares.append(guard.only_under(names))
    server.web_app.middlewares.append(origin.no_other_sites(read_only=read_only))
    server.web_app.on_startup.append(_starter(state))
    server.web_app.on_cleanup.append(_stopper(state))
    faust_app.web = server
    return server


def _starter(state: WorkerState) -> Callable[[web.Application], Awaitable[None]]:
    async def start(_web_app: web.Application) -> None:
        await state.reader.start()

    return start


def _stopper(state: WorkerState) -> Callable[[web.Application], Awaitable[None]]:
    async def stop(_web_app: web.Application) -> None:
        # Faust cleans the application up twice (Web.stop_server); stopping twice is harmless.
        await state.reader.stop()

    return stop
