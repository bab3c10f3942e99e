"""What surrounds every answer: headers that keep browsers safe, and JSON errors for the API."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


async def secure(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to an answer, errors included; what the answer says itself stays."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def json_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn errors under /api/ into JSON objects with a sentence in `error`."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if not request.path.startswith("/api/") or error.status < web.HTTPBadRequest.status_code:
            raise
        asked = f"{request.method} {request.path}"
        sentence = f"{error.reason}: {asked}; the reference of the HTTP API lists what there is"
        headers = {name: value for name, value in error.headers.items() if name == "Allow"}
        body = msgspec.json.encode({"error": sentence})
        return web.Response(body=body, status=error.status, content_type="application/json", headers=headers)
