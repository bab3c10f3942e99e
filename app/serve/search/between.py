"""Keeps what workers tell each other among them: who asks has to know the installation's secret, if it has one."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from app.serve.search.search import LOCAL


def only_workers(secret: str) -> Any:
    """Return a middleware that answers below LOCAL only to those that show `secret`; to everyone if it is empty."""
    wanted = f"Bearer {secret}".encode()

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not secret or not request.path.startswith(f"{LOCAL}/"):
            return await handler(request)
        shown = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if hmac.compare_digest(shown, wanted):
            return await handler(request)
        sentence = "this is only for the installation's workers. Set the same DELAY_WEB_SECRET on all of them"
        return web.json_response({"error": sentence}, status=web.HTTPUnauthorized.status_code)

    return check
