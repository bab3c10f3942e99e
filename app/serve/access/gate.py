"""The gate of the web port: identifies the user of every request, and checks the permission."""

import math
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from app.base.clock import Clock
from app.serve.access.basic import CHALLENGE, Basic, TooManyFailures
from app.serve.access.caller import ANYBODY, CALLER, HOLDS, Caller, Role, enough, masks, put
from app.serve.access.oidc import Oidc
from app.serve.access.permissions import NEEDS, WITHIN, Need
from app.serve.access.sign_in import SIGN_IN, redirect_to_sign_in
from app.serve.web.guard import SAFE, route_of
from app.serve.web.origin import client_address, says_origin
from app.serve.web.problem import Problem
from app.settings.web import WebSettings

_PASSWORD: Final = f"GET {SIGN_IN}/password"
_METRICS: Final = "GET /metrics"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """Lets through users with permission; without users and a provider it lets through all, as admins."""

    def __init__(self, web_settings: WebSettings, basic: Basic | None, oidc: Oidc | None) -> None:
        """Identify users by name and password with `basic`, and by token or session with `oidc`."""
        self._basic, self._oidc = basic, oidc
        self._payloads = web_settings.payloads
        self._between = bool(web_settings.secret)
        self._needs = dict(NEEDS)
        if web_settings.metrics == "open":
            self._needs[_METRICS] = "open"

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request with `handler`, or raise a Problem without permission."""
        route = route_of(request)
        need: Need | None = "viewer" if route is None else self._needs.get(route)
        match need:
            case None:
                raise Problem("forbidden", f"no role is configured for {route}, so it is refused")
            case "open" | "workers":
                return await self._unnamed(request, handler, need)
            case role:
                return await self._named(request, handler, route, role)

    async def _named(self, request: web.Request, handler: Handler, route: str | None, need: Role) -> web.StreamResponse:
        """Answer a request if its user is known and has a sufficient role."""
        try:
            caller = request.get(CALLER) or await self._caller(request)  # a page uses the API as the page's user
        except TooManyFailures as error:
            raise Problem("rate", str(error), headers={"Retry-After": str(math.ceil(error.wait_s))}) from error
        if caller is None:
            return self._challenge(request, route)
        if caller.session and request.method not in SAFE and not says_origin(request):
            raise Problem("forbidden", "a session works only in a browser; programs need a token or a password")
        if not enough(caller.role, need):
            raise Problem("forbidden", f"this needs the role {need}; {caller.name} has the role {caller.role}")
        if caller.bound and route is not None and route not in WITHIN:
            sentence = (
                f"this concerns the whole installation, but {caller.name} is restricted to namespaces. "
                "See /api/v1/namespaces for what is available"
            )
            raise Problem("forbidden", sentence)
        request[HOLDS] = self._holds(request, caller)
        put(request, msgspec.structs.replace(caller, masked=masks(self._payloads, caller.role)))
        answer = await handler(request)
        if self._oidc is not None:
            self._oidc.sessions.renew(request, answer)
        return answer

    async def _unnamed(self, request: web.Request, handler: Handler, need: Need) -> web.StreamResponse:
        """Answer a request to an open route, or from a worker; app/serve/search/routes.py checks the secret."""
        if need == "workers" and (self._basic or self._oidc) and not self._between:
            sentence = "this is only for the installation's workers. Set the same DELAY_WEB_SECRET on all of them"
            raise Problem("unauthorized", sentence)
        return await handler(request)

    async def _caller(self, request: web.Request) -> Caller | None:
        """Return the user, by the first credentials in the request: if these are wrong, no others are tried."""
        if not (self._basic or self._oidc):
            return ANYBODY
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme:
            if self._basic and scheme.lower() == "basic":
                return await self._basic.caller(shown.strip(), client_address(request))
            if self._oidc and scheme.lower() == "bearer":
                return await self._oidc.bearer(shown.strip())
            return None
        return None if self._oidc is None else self._oidc.sessions.caller(request)

    def _holds(self, request: web.Request, caller: Caller) -> Callable[[], bool]:
        """Return a check whether the user still has the permissions: sessions end, and users' lines change."""
        if caller.session and self._oidc is not None:
            sessions = self._oidc.sessions
            return lambda: sessions.caller(request) is not None
        if caller.until_s is not None:
            until_s = caller.until_s
            return lambda: Clock.wall_ms() < until_s * 1_000
        if self._basic is not None:
            basic, user = self._basic, self._basic.user(caller.name)
            return lambda: basic.user(caller.name) == user
        return lambda: True

    def _challenge(self, request: web.Request, route: str | None) -> web.StreamResponse:
        """Ask for a login: on the sign-in page if there is a provider, else in the browser's own dialog."""
        api = request.path.startswith("/api/") or route == _METRICS
        if self._oidc is not None and not api and route != _PASSWORD and "Authorization" not in request.headers:
            return redirect_to_sign_in(request)
        ways = ["a user's name and password"] if self._basic else []
        ways += ["a bearer token of the provider", f"a session ({SIGN_IN})"] if self._oidc else []
        challenge = CHALLENGE if self._basic and (self._oidc is None or route == _PASSWORD or not api) else "Bearer"
        sentence = f"this needs {' or '.join(ways)}. The login is missing, expired or wrong"
        raise Problem("unauthorized", sentence, headers={"WWW-Authenticate": challenge})


def middleware(gate: Gate) -> Middleware:
    """Return the gate as a middleware of aiohttp."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await gate.check(request, handler)

    return check
