"""The middlewares of a gateway, the outer ones first: errors, former paths, hosts, gate, bodies, idempotency keys."""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from app.base.errors import SignInMissing
from app.gateway.confluent import failures, records
from app.gateway.parts import GatewayParts
from app.gateway.refusals import counted
from app.serve.access.access import access_file, oidc_of
from app.serve.access.gate import Gate
from app.serve.keys import once
from app.serve.keys.service import KeyService
from app.serve.web import guard, problem
from app.serve.web.problem import Problem
from app.serve.web.server import GATEWAY, bound_bodies

#: The paths of an earlier version, for this release.
_FORMER: Final = ("/v1/messages", "/openapi.json")


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
    web_app.middlewares.append(problem.middleware(answer, lambda _: True, see, "The gateway"))
    web_app.middlewares.append(redirects)
    names = () if settings.web.users_file else guard.names_of(process.host, process.url, settings.web.hosts)
    guard.register(web_app, names)
    _add_gate(web_app, parts)
    bound_bodies(web_app, GATEWAY, records.size_of)
    path, sender = settings.gateway_path, parts.connection.sender
    service = KeyService(settings.kafka, settings.topics, path, parts.receipts.moment_ms, sender)
    keys = service.open()
    parts.unready.extend((keys.unread, keys.unwritable))
    once.register(web_app, service, settings.topics, at_start=True)


def _add_gate(web_app: web.Application, parts: GatewayParts) -> None:
    settings = parts.settings
    file = access_file(settings)
    if settings.process.public and not file:
        raise SignInMissing(settings.process.host)
    oidc = oidc_of(settings, file)
    if oidc is not None:
        web_app.on_cleanup.append(oidc.close)
    web_app.middlewares.append(counted)
    web_app.middlewares.append(Gate(settings.web, file, oidc, pages=False).check)


@web.middleware
async def redirects(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 308 for a former path, which keeps method and body; the rest of the URL stays too."""
    path = request.rel_url.raw_path
    if path in _FORMER or path.startswith(f"{_FORMER[0]}/"):
        moved = f"/api{'/v1' if path == _FORMER[1] else ''}{request.rel_url.raw_path_qs}"
        return web.Response(status=web.HTTPPermanentRedirect.status_code, headers={"Location": moved})
    return await handler(request)
