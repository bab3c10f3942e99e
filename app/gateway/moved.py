"""Redirects from the gateway's former paths, for this release."""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from app.gateway.parts import GatewayParts

PREFIX: Final = "/api"
_FORMER: Final = ("/v1/messages", "/openapi.json")


def register(web_app: web.Application, _parts: GatewayParts) -> None:
    """Add the redirects to an application that has not started."""
    web_app.middlewares.append(redirects)


@web.middleware
async def redirects(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 308 for a former path, which keeps method and body; the rest of the URL stays too."""
    path = request.rel_url.raw_path
    if path in _FORMER or path.startswith(f"{_FORMER[0]}/"):
        moved = f"{PREFIX}{'/v1' if path == _FORMER[1] else ''}{request.rel_url.raw_path_qs}"
        return web.Response(status=web.HTTPPermanentRedirect.status_code, headers={"Location": moved})
    return await handler(request)
