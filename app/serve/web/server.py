"""The HTTP server of workers, gateways and the front of several processes: limits, TLS, and refusals as problems.

What one of them is guarded against, all are: `guard` has the checks of a request, app/base/listening those of bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from app.base.errors import PortUnusable
from app.base.listening import bodies
from app.base.listening.bodies import Bodies
from app.base.listening.connections import ConnectionLimits, Runner
from app.base.listening.limits import BACKLOG, HttpRefusal
from app.base.listening.tls import certificate
from app.serve.web.problem import Problem, response
from app.settings.process import ProcessSettings


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server: its connections, the bytes of one body, and of the bodies of all requests together.

    Requests in progress may continue for `finish_s` when the server stops, before they are cancelled.
    """

    connections: ConnectionLimits
    body_bytes: int
    bodies_bytes: int
    finish_s: float


#: The maximum bytes of a body that a worker accepts.
BODY_BYTES: Final = 8 << 20
#: Browsers and scrapers need a few connections each, and files and broker connections need descriptors too. Health
#: checks always get a connection. Headers have room for the tokens and cookies of proxies.
WORKER: Final = ServerLimits(
    ConnectionLimits(most=256, most_of_one=256, header_bytes=8_190, newest_in=True), BODY_BYTES, 32 << 20, finish_s=2.0
)
#: Bodies are streamed through, without using memory.
FRONT: Final = replace(WORKER, bodies_bytes=WORKER.connections.most * WORKER.body_bytes)
#: 64 headers of 4 KiB are 256 KiB a connection at most, so the heads of a thousand connections take at most 256 MiB.
#: One address gets half, so that it cannot keep the others out; a proxy's connections are reused, and half is plenty.
#: A body may have four times the bytes of the largest record that Kafka accepts by default; 32 of these fit at once.
GATEWAY: Final = ServerLimits(
    ConnectionLimits(most=1_000, most_of_one=500, header_bytes=4_096), 4 << 20, 128 << 20, finish_s=10.0
)


class Refusals:
    """Answers refused requests and bytes with problems."""

    def __init__(
        self, refused: Callable[[str], None] = lambda _: None, cut_off: Callable[[str], None] = lambda _: None
    ) -> None:
        """Count what is refused before a middleware sees it.

        `refused` takes the problem type of bytes that are not HTTP, `cut_off` the reason why a connection is ended
        (HttpRefusals).
        """
        self._refused, self.cut_off = refused, cut_off

    def error(self, refusal: HttpRefusal) -> Problem:
        """Return the problem for a refusal."""
        return Problem(refusal.kind, refusal.sentence, headers=refusal.headers)

    def answer(self, refusal: HttpRefusal) -> web.Response:
        """Return the response to bytes that are not an HTTP request, and count it."""
        self._refused(refusal.kind)
        return response(self.error(refusal))


def bound_bodies(
    web_app: web.Application, limits: ServerLimits, size_of: Callable[[web.Request], int | None] | None = None
) -> None:
    """Make an application that has not started refuse compressed bodies, and bodies beyond the limits.

    Middlewares added before see the request first, so only users with permission can use up the bytes. `size_of`
    returns the bytes that a body of unknown length uses, None for the maximum.
    """
    web_app.middlewares.append(bodies.middleware(Bodies(Refusals(), limits.body_bytes, limits.bodies_bytes, size_of)))


class HttpServer:
    """Serves an application at one address, with TLS if the settings have a certificate."""

    def __init__(
        self,
        web_app: web.Application,
        limits: ServerLimits,
        process: ProcessSettings,
        port: int | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """Serve at the settings' host, and at a worker's port or at `port`, a gateway's."""
        self._web_app, self._limits, self._process = web_app, limits, process
        self._port, self._gateway = port or process.port, port is not None
        self._refusals = refusals or Refusals()
        self._runner: Runner | None = None

    async def start(self) -> None:
        """Start to serve. Raises SettingInvalid for a bad certificate, and PortUnusable."""
        process, limits = self._process, self._limits
        own = certificate(process.tls_cert, process.tls_key)
        self._runner = Runner(self._web_app, self._refusals, limits.connections, own, shutdown_timeout=limits.finish_s)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, process.host, self._port, backlog=BACKLOG).start()
        except OSError as error:
            await self._runner.cleanup()
            raise PortUnusable(process.host, self._port, error, gateway=self._gateway) from error

    async def stop(self) -> None:
        """Answer the requests in progress, and stop."""
        if self._runner is not None:
            await self._runner.cleanup()
