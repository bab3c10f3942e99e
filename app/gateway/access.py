"""Puts guards before a gateway's routes: the check of tokens, and limits for bodies."""

from typing import Final

from aiohttp import web

from app.base.errors import SettingInvalid
from app.gateway.callers import gate
from app.gateway.callers.gate import TokenGate
from app.gateway.callers.refusals import counted
from app.gateway.callers.tokens_file import SETTING, TokensFile
from app.gateway.parts import GatewayParts
from app.gateway.spool.errors import TokensMissing
from app.serve.web.guard import route_of
from app.serve.web.server import GATEWAY, bound_bodies
from app.settings.gateway import GatewaySettings

#: The bytes that a stream of records uses at any length, because it is read one record at a time.
_STREAM_BYTES: Final = 1 << 20


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Add the check of tokens, and the limits for bodies, to an application that has not started.

    Raises SettingInvalid, and TokensMissing if other hosts reach the port without a token.
    """
    settings = parts.settings
    tokens = tokens_of(settings.gateway)
    if settings.process.public and not tokens:
        raise TokensMissing(settings.process.host)
    web_app.middlewares.append(counted)
    metrics_open = not tokens or settings.web.metrics == "open"
    web_app.middlewares.append(gate.middleware(TokenGate(tokens, metrics_open=metrics_open)))
    bound_bodies(web_app, GATEWAY, _size_of)


def _size_of(request: web.Request) -> int | None:
    """Return the bytes that a body of unknown length uses; None if it is read as a whole."""
    return _STREAM_BYTES if (route_of(request) or "").endswith("/records") else None


def tokens_of(gateway: GatewaySettings) -> TokensFile:
    """Return the file of tokens in the settings. Raises SettingInvalid."""
    file = gateway.tokens_file
    try:
        return TokensFile(file)
    except ValueError as error:
        raise SettingInvalid(SETTING, repr(file), str(error)) from error
