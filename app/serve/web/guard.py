"""Guards of every server: the allowed host names, no changes from other sites, and headers that keep browsers safe.

The origin of a request is the client's address, also through the front process, and the site whose page sent it.
"""

import contextlib
import fnmatch
import hmac
import ipaddress
import os
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from app.serve.web.problem import Problem

#: Methods that change no state.
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: This path changes only the user's own session.
_OUT: Final = "/sign-out"
#: The media types of JSON bodies. Before a page of another site sends one of them, the browser asks this server.
JSON_TYPES: Final = ("application/json", "application/merge-patch+json")
#: The media type of a body without one; no form of a page has it.
_UNNAMED: Final = "application/octet-stream"
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


def register(
    web_app: web.Application, names: Iterable[str], *, read_only: bool = False, only_json: bool = False
) -> None:
    """Add the guards to an application that has not started; `names` are its host names, or patterns of them.

    Another site can have its own name resolve to this machine's address (DNS rebinding), and a browser then lets that
    site read responses. It cannot make a browser use an IP address as host, and only non-browsers send no host. Without
    names, requests for any host are answered: that is safe if each needs a token, which no other site has.

    Changes are refused if a page of another site sends them. Requests without `Sec-Fetch-Site` and `Origin` are not
    from browsers, and pass. With `read_only` all changes are refused, with `only_json` changes by the API with another
    media type.
    """
    known = [name for name in names if name]

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if known and not is_under(request, known):
            name = _name(request.headers.get("Host", ""))
            sentence = f"the host name {name[:253]!r} is not allowed. Add it to DELAY_WEB_HOSTS if it is correct."
            raise Problem("misdirected", sentence)
        if request.method not in SAFE:
            _check_change(request, read_only=read_only, only_json=only_json)
        return await handler(request)

    web_app.on_response_prepare.append(secure)
    web_app.middlewares.append(check)


def _check_change(request: web.Request, *, read_only: bool, only_json: bool) -> None:
    if read_only and request.path != _OUT:
        raise Problem("read-only", "this worker is read-only (DELAY_WEB_READ_ONLY)")
    if from_another_site(request):
        raise Problem("forbidden", "the request comes from a page of another site, which is not allowed")
    is_empty = not request.can_read_body and request.content_type == _UNNAMED
    if only_json and not is_empty and request.path.startswith("/api/") and request.content_type not in JSON_TYPES:
        sentence = f"the body must be application/json, not {request.content_type:.64}"
        raise Problem("unsupported-media-type", sentence)


def is_under(request: web.Request, names: Iterable[str]) -> bool:
    """Return whether a request's host is an IP address, empty, or among `names`, which may be patterns."""
    name = _name(request.headers.get("Host", ""))
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return not name or any(fnmatch.fnmatchcase(name, one.lower().rstrip(".")) for one in names)


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


#: A secret that the front of several processes (app/ops/multiprocess/front.py) shares with the processes behind it;
#: addresses from other senders are ignored.
PROOF: Final = "PUNCTUAL_FRONT_PROOF"
PROOF_HEADER: Final = "X-Punctual-Front"
ADDRESS_HEADER: Final = "X-Punctual-Address"


def client_address(request: web.Request) -> str | None:
    """Return the client's address: from the front process if it sent the request, else from the connection."""
    proof, shown = os.environ.get(PROOF, ""), request.headers.get(PROOF_HEADER, "")
    if proof and hmac.compare_digest(proof.encode(), shown.encode()):
        return request.headers.get(ADDRESS_HEADER)
    return request.remote


def says_origin(request: web.Request) -> bool:
    """Return whether a request has a header with its origin, as every change from a browser has."""
    return "Sec-Fetch-Site" in request.headers or "Origin" in request.headers


def from_another_site(request: web.Request) -> bool:
    """Return whether a browser sends a request for another site's page (W3C Fetch Metadata, or RFC 6454 before it)."""
    fetched = request.headers.get("Sec-Fetch-Site")
    if fetched is not None:
        return fetched not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("Host", "")
