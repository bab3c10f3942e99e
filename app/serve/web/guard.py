"""What surrounds every answer: names that it is served under, headers that keep browsers safe."""

import fnmatch
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from app.serve.web.problem import Problem

#: Methods that change nothing.
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: a form of our own would then say `Origin: null`, and by plain http browsers say nothing else.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def route_of(request: web.Request) -> str | None:
    """Return the method and path of the route that a request has arrived at; None if there is no such route.

    The path is as its route is registered, so that no spelling of a path gets around a table of routes.
    """
    resource = request.match_info.route.resource
    if resource is None:
        return None
    method = "GET" if request.method == "HEAD" else request.method
    return f"{method} {resource.canonical}"


async def secure(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to an answer, errors included; what the answer says itself stays."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def names_of(host: str, url: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names that a server on `host` is served under: this machine's, those of its own `url`, and `more`."""
    return ("localhost", "*.localhost", socket.gethostname(), host, urlsplit(url).hostname or "", *more)


def only_under(names: Iterable[str]) -> Any:
    """Return a middleware that answers only to requests under these names, which may be patterns, or under an address.

    A stranger's page may have its own name resolve to this machine's address (DNS rebinding), and a browser then
    lets it read what is here. It cannot have a browser ask under an address; what sends no name is no browser.
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
    """Return whether a request names an address, nothing, or one of these names, which may be patterns."""
    name = _name(request.headers.get("Host", ""))
    return not name or _is_address(name) or any(fnmatch.fnmatchcase(name, one.lower().rstrip(".")) for one in names)


def _name(host: str) -> str:
    """Return the name of a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
