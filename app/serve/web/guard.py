"""Guards around every response: the allowed host names, and headers that keep browsers safe."""

import fnmatch
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from app.serve.web.problem import Problem

#: Methods that change no state.
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: our own forms would then send `Origin: null`, and by plain http no other header with the origin.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def route_of(request: web.Request) -> str | None:
    """Return the method and path of the route that matched a request; None if there is no such route.

    It is the path as registered, so that no other spelling of a path bypasses a table of routes.
    """
    resource = request.match_info.route.resource
    if resource is None:
        return None
    method = "GET" if request.method == "HEAD" else request.method
    return f"{method} {resource.canonical}"


async def secure(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to a response, errors included; headers that it already has stay."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def names_of(host: str, url: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the host names of a server on `host`: this machine's, the name in its own `url`, and `more`."""
    return ("localhost", "*.localhost", socket.gethostname(), host, urlsplit(url).hostname or "", *more)


def only_under(names: Iterable[str]) -> Any:
    """Return a middleware that answers only requests for these names, which may be patterns, or for an IP address.

    Another site can have its own name resolve to this machine's address (DNS rebinding), and a browser then lets that
    site read responses. It cannot make a browser use an IP address as host, and only non-browsers send no host.
    """
    known = [name for name in names if name]

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if is_under(request, known):
            return await handler(request)
        name = _name(request.headers.get("Host", ""))
        sentence = f"the host name {name[:253]!r} is not allowed. Add it to DELAY_WEB_HOSTS if it is correct."
        raise Problem("misdirected", sentence)

    return check


def is_under(request: web.Request, names: Iterable[str]) -> bool:
    """Return whether a request's host is an IP address, empty, or among `names`, which may be patterns."""
    name = _name(request.headers.get("Host", ""))
    return not name or _is_address(name) or any(fnmatch.fnmatchcase(name, one.lower().rstrip(".")) for one in names)


def _name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
