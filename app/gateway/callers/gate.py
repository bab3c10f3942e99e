"""The gate of the gateway: identifies the caller by the token of a request, and applies the rate limit."""

import asyncio
import math
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from app.base.clock import Clock
from app.gateway.callers.caller import ANYONE, CALLER, Caller
from app.gateway.callers.permissions import NEEDS, Need
from app.gateway.callers.rate_limit import RateLimit
from app.gateway.callers.tokens_file import TokensFile
from app.serve.web.guard import route_of
from app.serve.web.problem import Problem

_CHALLENGE: Final = 'Bearer realm="Punctual"'
#: The maximum characters of a token that is hashed; a valid token has 47.
_LONGEST: Final = 256


class TokenGate:
    """Lets through callers with a token; without a file of tokens it lets through all."""

    def __init__(self, tokens: TokensFile, *, metrics_open: bool) -> None:
        """Accept the tokens in `tokens`; with `metrics_open` metrics need none."""
        self._tokens, self._rates = tokens, RateLimit()
        self._metrics_open = metrics_open

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request with `handler`, or raise a Problem without permission."""
        route = route_of(request)
        need: Need | None = "caller" if route is None else NEEDS.get(route)
        if need is None:
            raise Problem("forbidden", f"No permission is configured for {route}, so it is refused.")
        if need == "open" or (need == "metrics" and self._metrics_open):
            return await handler(request)
        caller = self._caller(request)
        request[CALLER] = caller
        if need == "metrics":  # the rate limit must not block monitoring
            return await handler(request)
        return await self._counted(request, handler, caller)

    async def _counted(self, request: web.Request, handler: Handler, caller: Caller) -> web.StreamResponse:
        now_s = asyncio.get_running_loop().time()
        wait_s = self._rates.take(caller, now_s)
        headers = self._rates.headers(caller, now_s)
        if wait_s:
            sentence = (
                f"{caller.name} may send {caller.rate:g} requests per second to this gateway, {caller.burst} at once. "
                "Send them more slowly, or more messages in each."
            )
            raise Problem("rate", sentence, headers={**headers, "Retry-After": str(math.ceil(wait_s))})
        try:
            answer = await handler(request)
        except Problem as problem:
            problem.headers = {**headers, **problem.headers}
            raise
        if not answer.prepared:
            answer.headers.update(headers)
        return answer

    def _caller(self, request: web.Request) -> Caller:
        """Return the caller of a request's token. Raises Problem."""
        if not self._tokens:
            return ANYONE
        lines = request.headers.getall("Authorization", [])
        scheme, _, shown = lines[0].partition(" ") if lines else ("", "", "")
        if not lines:
            raise _refused("This needs a token. Send the header Authorization: Bearer <token>.")
        if len(lines) > 1 or scheme.lower() != "bearer":
            raise _refused("This needs one Authorization header, with a bearer token.", "invalid_request")
        shown = shown.strip()
        found = None
        if len(shown) <= _LONGEST:
            found = self._tokens.caller(shown, asyncio.get_running_loop().time(), Clock.wall_ms())
        if found is None:
            raise _refused("The token is unknown or has expired.", "invalid_token")
        return found


def middleware(gate: TokenGate) -> Middleware:
    """Return the gate as a middleware of aiohttp."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await gate.check(request, handler)

    return check


def _refused(sentence: str, error: str = "") -> Problem:
    """Return the problem for a missing or wrong token (RFC 6750, 3)."""
    challenge = f'{_CHALLENGE}, error="{error}"' if error else _CHALLENGE
    return Problem("unauthorized", sentence, headers={"WWW-Authenticate": challenge})
