"""The middlewares of a gateway, the outer ones first: counts, errors, former paths, hosts, gate, bodies, keys.

Refused requests are counted by problem type and caller name; labels contain no token, key or body.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter

from app.base.errors import SignInMissing
from app.gateway.confluent import failures, records
from app.gateway.parts import GatewayParts
from app.serve.access.access import add_gate
from app.serve.access.caller import caller_of
from app.serve.keys import once
from app.serve.keys.once import KeyService
from app.serve.web import guard, problem
from app.serve.web.problem import KIND, Problem
from app.serve.web.server import GATEWAY, bound_bodies

#: The paths of an earlier version, for this release.
_FORMER: Final = ("/v1/messages", "/openapi.json")
#: Not the registry of the whole process, because a worker imports the gateway's command too.
METRICS: Final = CollectorRegistry()
_REFUSED: Final = Counter(
    "delay_gateway_refused", "Refused requests, by type of problem and by caller.", ["type", "caller"], registry=METRICS
)
_CUT_OFF: Final = Counter(
    "delay_gateway_cut_off", "Connections that were closed or rejected, by reason.", ["reason"], registry=METRICS
)
_ERRORS_FROM: Final = 400


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the middlewares to an application that has not started.

    Raises SettingInvalid; SignInMissing if other hosts reach the port without a login; a TableError or
    DataDirectoryUnusable if the disk fails.
    """
    settings = parts.settings
    confluent, process = settings.gateway.confluent == "on", settings.process

    def answer(request: web.Request, error: Problem) -> web.Response:
        return failures.answer(request, error) if confluent else problem.response(error)

    see = "See GET /api/v1/openapi.json."
    web_app.middlewares.append(counted)
    web_app.middlewares.append(problem.middleware(answer, lambda _: True, see, "The gateway"))
    web_app.middlewares.append(redirects)
    names = () if settings.web.users_file else guard.names_of(process.host, process.url, settings.web.hosts)
    guard.register(web_app, names)
    file, _ = add_gate(web_app, settings, pages=False)
    if process.public and not file:
        raise SignInMissing(process.host)
    bound_bodies(web_app, GATEWAY, records.size_of)
    path, sender = settings.gateway_path, parts.connection.sender
    service = KeyService(settings.kafka, settings.topics, path, parts.receipts.moment_ms, sender)
    keys = service.open()
    parts.unready.extend((keys.unread, keys.unwritable))
    once.register(web_app, service, settings.topics, at_start=True)


@web.middleware
async def redirects(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 308 for a former path, which keeps method and body; the rest of the URL stays too."""
    path = request.rel_url.raw_path
    if path in _FORMER or path.startswith(f"{_FORMER[0]}/"):
        moved = f"/api{'/v1' if path == _FORMER[1] else ''}{request.rel_url.raw_path_qs}"
        return web.Response(status=web.HTTPPermanentRedirect.status_code, headers={"Location": moved})
    return await handler(request)


def refused(kind: str, caller: str = "") -> None:
    """Count a refused request."""
    _REFUSED.labels(kind, caller).inc()


def cut_off(reason: str) -> None:
    """Count a closed connection: a `handshake`, `head`, `body` or `answer` too slow; too `many`, or of an `address`."""
    _CUT_OFF.labels(reason).inc()


@web.middleware
async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a request, and count it if it is refused."""
    answer = await handler(request)
    if answer.status >= _ERRORS_FROM:
        refused(answer.get(KIND, "bad-request"), caller_of(request).login)
    return answer
