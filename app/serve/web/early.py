"""Health checks from the first second: until a worker has reached its brokers, nothing else is there to be served."""

from collections.abc import Callable

from aiohttp import web

from app.base.errors import WebPortUnusable
from app.base.listening.connections import Runner
from app.serve.web.answers import as_json
from app.serve.web.refusals import BOUNDS, WebRefusals
from app.serve.web.routes import RETRY_AFTER


class EarlyServer:
    """Answers `/health/live` with 200, and all else with 503 and what the start waits for."""

    def __init__(self, host: str, port: int, reason: Callable[[], str | None]) -> None:
        """Serve at an address; `reason` says what is waited for."""
        self._host, self._port, self._reason = host, port, reason
        app = web.Application()
        app.router.add_get("/health/live", self._live)
        app.router.add_route("*", "/{path:.*}", self._starting)
        self._runner = Runner(app, WebRefusals(), BOUNDS)

    async def start(self) -> None:
        """Start to serve. Raises WebPortUnusable if the address cannot be listened on."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            raise WebPortUnusable(self._host, self._port, error) from error

    async def stop(self) -> None:
        """Leave the address to the worker's own server."""
        await self._runner.cleanup()

    async def _live(self, _: web.Request) -> web.Response:
        return as_json({"live": True})

    async def _starting(self, _: web.Request) -> web.Response:
        body = {"ready": False, "error": self._reason() or "starting", "recovery": []}
        return as_json(body, status=503, headers=RETRY_AFTER)
