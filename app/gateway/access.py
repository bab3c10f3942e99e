"""Puts guards before a gateway's routes: the gate, and limits for bodies."""

from aiohttp import web

from app.base.errors import SignInMissing
from app.gateway.confluent import records
from app.gateway.parts import GatewayParts
from app.gateway.refusals import counted
from app.serve.access.access import access_file, oidc_of
from app.serve.access.gate import Gate
from app.serve.web.server import GATEWAY, bound_bodies


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the gate, and the limits for bodies, to an application that has not started.

    Raises SettingInvalid, and SignInMissing if other hosts reach the port without a login.
    """
    settings = parts.settings
    file = access_file(settings)
    if settings.process.public and not file:
        raise SignInMissing(settings.process.host)
    oidc = oidc_of(settings, file)
    if oidc is not None:
        web_app.on_cleanup.append(oidc.close)
    web_app.middlewares.append(counted)
    web_app.middlewares.append(Gate(settings.web, file, oidc, pages=False).check)
    bound_bodies(web_app, GATEWAY, records.size_of)
