"""The gate of workers and gateways: identifies the caller of every request, and checks permission and rate limit."""

import asyncio
import hmac
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from app.base.clock import Clock
from app.base.newest import Newest
from app.serve.access.access_file import AccessFile
from app.serve.access.basic import CHALLENGE, Basic
from app.serve.access.caller import ANYBODY, CALLER, FORWARDED, HOLDS, Caller, enough, forwarded_in, masks, put
from app.serve.access.oidc import Oidc
from app.serve.access.permissions import NEEDS, WITHIN, Need
from app.serve.access.sign_in import SIGN_IN, redirect_to_sign_in
from app.serve.access.token import is_token
from app.serve.web.guard import SAFE, client_address, route_of, says_origin
from app.serve.web.problem import Problem
from app.settings.web import WebSettings

#: The name of the policy in the headers (draft-ietf-httpapi-ratelimit-headers).
_POLICY: Final = '"requests"'
#: The maximum number of callers that are remembered, because users of a provider are not in the access file.
_MOST: Final = 20_000
#: Sums of times are off by less.
_ROUNDING_S: Final = 1e-6


class RateLimit:
    """Counts requests by caller name, with one time for each caller (the generic cell rate algorithm)."""

    def __init__(self) -> None:
        #: When a caller may send a whole burst again, in seconds of the event loop's clock.
        self._whole_s = Newest[str, float](_MOST)

    def take(self, caller: Caller, now_s: float) -> float:
        """Count a request and return 0, or return the seconds until the next one is allowed without counting it."""
        if not caller.rate:
            return 0.0
        until_s = self._until_whole_s(caller, now_s)
        wait_s = until_s + (1 - caller.burst) / caller.rate
        is_allowed = wait_s <= _ROUNDING_S
        self._whole_s[caller.name] = now_s + until_s + is_allowed / caller.rate
        return 0.0 if is_allowed else wait_s

    def headers(self, caller: Caller, now_s: float) -> dict[str, str]:
        """Return the rate-limit headers: the requests left, and the seconds until a whole burst is allowed again."""
        if not caller.rate:
            return {}
        until_s = max(0.0, self._until_whole_s(caller, now_s) - _ROUNDING_S)
        window_s, left = math.ceil(caller.burst / caller.rate), int(caller.burst - until_s * caller.rate)
        return {
            "RateLimit-Policy": f"{_POLICY};q={caller.burst};w={max(1, window_s)}",
            "RateLimit": f"{_POLICY};r={left};t={math.ceil(until_s)}",
        }

    def _until_whole_s(self, caller: Caller, now_s: float) -> float:
        # A limit that has changed does not make the caller wait for longer than one of that limit.
        return min(caller.burst / caller.rate, max(0.0, self._whole_s.get(caller.name, now_s) - now_s))


_PASSWORD: Final = f"GET {SIGN_IN}/password"
_METRICS: Final = "GET /metrics"
_BEARER: Final = 'Bearer realm="Punctual"'

#: Returns the caller of credentials as long as they are valid, else None.
CallerLookup = Callable[[], Caller | None]


class Gate:
    """Lets through callers with permission; without an access file and a provider it lets through all, as admins."""

    def __init__(self, web_settings: WebSettings, file: AccessFile, oidc: Oidc | None, *, pages: bool) -> None:
        """Identify callers by the passwords and tokens in `file`, and with `oidc` by the provider's tokens.

        With `pages` people sign in on pages and have sessions.
        """
        self._file, self._oidc, self._pages = file, oidc, pages
        self._basic, self._rates = Basic(file), RateLimit()
        self._payloads = web_settings.payloads
        self._secret = web_settings.secret
        self._needs = dict(NEEDS)
        if web_settings.metrics == "open":
            self._needs[_METRICS] = "open"

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request with `handler`, or raise a Problem without permission."""
        route = route_of(request)
        need: Need | None = "viewer" if route is None else self._needs.get(route)
        match need:
            case None:
                raise Problem("forbidden", f"no role is configured for {route}, so it is refused")
            case "open":
                return await handler(request)
            case "workers":
                if not self._from_worker(request):
                    sentence = "this is only for the installation's workers"
                    raise Problem("unauthorized", f"{sentence}. Set the same DELAY_WEB_SECRET on all of them")
                return await handler(request)
        caller = request.get(CALLER) or self._forwarded(request)
        headers: Mapping[str, str] = {}
        if caller is None:  # otherwise a page uses the API as the page's user, or a gateway as its caller
            lookup = await self._identify(request)
            caller = None if lookup is None else lookup()
            if lookup is None or caller is None:
                return self._challenge(request, route)
            until_ms = math.inf if caller.until_s is None else caller.until_s * 1_000
            request[HOLDS] = lambda: lookup() == caller and Clock.wall_ms() < until_ms
            request[CALLER] = caller
            headers = {} if route == _METRICS else self._count(caller)  # the limit does not block monitoring
        try:
            self._check_role(request, route, need, caller)
            answer = await handler(request)
        except Problem as problem:
            problem.headers = {**headers, **problem.headers}
            raise
        if not answer.prepared:
            answer.headers.update(headers)
        if self._oidc is not None:
            self._oidc.sessions.renew(request, answer)
        return answer

    def _from_worker(self, request: web.Request) -> bool:
        """Return whether a request has the workers' secret; without one it is needed where people sign in."""
        if not self._secret:
            return not self._file
        credentials = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        return hmac.compare_digest(credentials, f"Bearer {self._secret}".encode())

    def _forwarded(self, request: web.Request) -> Caller | None:
        """Return the caller for whom a gateway of the installation reads, None for any other request."""
        is_forwarded = FORWARDED in request.headers and request.method in SAFE
        return forwarded_in(request) if is_forwarded and self._from_worker(request) else None

    def _count(self, caller: Caller) -> Mapping[str, str]:
        now_s = asyncio.get_running_loop().time()
        wait_s = self._rates.take(caller, now_s)
        headers = self._rates.headers(caller, now_s)
        if wait_s:
            limit = f"{caller.rate:g} requests per second to this process, {caller.burst} at once"
            sentence = f"{caller.name} may send {limit}. Send them more slowly, or more messages in each"
            raise Problem("rate", sentence, headers={**headers, "Retry-After": str(math.ceil(wait_s))})
        return headers

    def _check_role(self, request: web.Request, route: str | None, need: Need, caller: Caller) -> None:
        """Store the caller in the request. Raises Problem if the caller's role or namespaces do not suffice."""
        if caller.session and request.method not in SAFE and not says_origin(request):
            raise Problem("forbidden", "a session works only in a browser; programs need a token or a password")
        if not enough(caller.role, need):  # type: ignore[arg-type] # it is a role
            raise Problem("forbidden", f"this needs the role {need}; {caller.name} has the role {caller.role}")
        if caller.bound and route is not None and route not in WITHIN:
            sentence = f"this concerns the whole installation, but {caller.name} is restricted to namespaces"
            raise Problem("forbidden", f"{sentence}. See /api/v1/namespaces for what is available")
        masked = caller.masked or masks(self._payloads, caller.role)
        put(request, msgspec.structs.replace(caller, masked=masked))

    async def _identify(self, request: web.Request) -> CallerLookup | None:
        """Return the lookup for the only credentials in the request, None if they are wrong: no others are tried."""
        if not self._file:
            return lambda: ANYBODY
        lines = request.headers.getall("Authorization", [])
        scheme, _, credentials = lines[0].partition(" ") if len(lines) == 1 else ("", "", "")
        credentials = credentials.strip()
        match scheme.lower():
            case "" if self._oidc is not None and self._pages and not lines:
                return partial(self._oidc.with_session, request)
            case "basic":
                return await self._with_password(credentials, client_address(request))
            case "bearer" if is_token(credentials):
                return lambda: self._file.now().of_token(credentials)
            case "bearer" if self._oidc is not None:
                return await self._oidc.bearer(credentials)
        return None

    async def _with_password(self, credentials: str, address: str | None) -> CallerLookup | None:
        user = await self._basic.user(credentials, address)
        if user is None:
            return None

        def lookup() -> Caller | None:
            current = self._file.now().users.get(user.caller.name)
            return current.caller if current is not None and current.hash == user.hash else None

        return lookup

    def _challenge(self, request: web.Request, route: str | None) -> web.StreamResponse:
        """Ask for credentials: on the sign-in page if there is a provider, else in the browser's own dialog."""
        access, oidc = self._file.now(), self._oidc is not None and self._pages
        api = request.path.startswith("/api/") or route == _METRICS or not self._pages
        lines = request.headers.getall("Authorization", [])
        if oidc and not api and route != _PASSWORD and not lines:
            return redirect_to_sign_in(request)
        ways = ["a user's name and password"] if access.has_passwords else []
        ways += ["a token"] if access.has_tokens else []
        ways += ["a bearer token of the provider"] if self._oidc is not None else []
        ways += [f"a session ({SIGN_IN})"] if oidc else []
        sentence = f"this needs {' or '.join(ways)}. The login is missing, expired or wrong"
        if len(lines) > 1:
            sentence = "this needs one Authorization header"
        headers = self._challenge_header(lines, basic=not oidc or route == _PASSWORD or not api)
        raise Problem("unauthorized", sentence, headers=headers)

    def _challenge_header(self, lines: list[str], *, basic: bool) -> Mapping[str, str]:
        """Return the header that asks for credentials (RFC 7617; RFC 6750, 3)."""
        bearer = bool(lines) and lines[0].lower().startswith("bearer")
        if basic and self._file.now().has_passwords and not bearer:
            return {"WWW-Authenticate": CHALLENGE}
        error = "invalid_request" if len(lines) > 1 or not bearer else "invalid_token"
        return {"WWW-Authenticate": f'{_BEARER}, error="{error}"' if lines else _BEARER}
