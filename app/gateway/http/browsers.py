"""Keeps pages of other sites from sending messages with a user's browser: a gateway is for programs."""

import socket
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from app.gateway.parts import GatewayParts
from app.serve.web.guard import SAFE, is_under
from app.serve.web.origin import from_another_site
from app.serve.web.problem import Problem
from app.settings.process import ProcessSettings
from app.settings.web import WebSettings


def register(web_app: web.Application, parts: GatewayParts) -> None:
    """Make an application that has not started refuse requests from such pages."""
    web_app.middlewares.append(_no_strangers)
    if not parts.settings.gateway.tokens_file:
        web_app.middlewares.append(_only_under(parts.settings.process, parts.settings.web))


@web.middleware
async def _no_strangers(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.method not in SAFE and from_another_site(request):
        raise Problem("forbidden", "The request comes from a web page of another site, which is not allowed.")
    return await handler(request)


def _only_under(process: ProcessSettings, web_settings: WebSettings) -> Middleware:
    """Return a middleware that answers only requests for host names of this machine.

    Another site can have its own name resolve to this machine's address (DNS rebinding). It is not needed with tokens,
    because that site has none.
    """
    names: Final = ("localhost", "*.localhost", socket.gethostname(), process.host, *web_settings.hosts)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_under(request, names):
            sentence = (
                "The gateway does not accept this host name. Add it to DELAY_WEB_HOSTS if it is yours, or set tokens."
            )
            raise Problem("misdirected", sentence)
        return await handler(request)

    return check
