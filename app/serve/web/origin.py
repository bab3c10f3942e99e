"""The origin of a request: the client's address, also through the front process, and the site whose page sent it."""

import hmac
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from app.serve.web.guard import SAFE
from app.serve.web.problem import Problem

#: This path changes only the user's own session.
_OUT: Final = "/sign-out"
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


def no_other_sites(*, read_only: bool) -> Any:
    """Return a middleware that refuses changes from pages of other sites in a user's browser.

    Requests without `Sec-Fetch-Site` and `Origin` are not from browsers, and pass. `read_only` refuses all changes.
    """

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.method in SAFE:
            return await handler(request)
        if read_only and request.path != _OUT:
            raise Problem("read-only", "this worker is read-only (DELAY_WEB_READ_ONLY)")
        if from_another_site(request):
            raise Problem("forbidden", "the request comes from another site. Open the console and try again there")
        if request.path.startswith("/api/") and request.content_type != "application/json":
            sentence = f"the body must be application/json, not {request.content_type:.64}"
            raise Problem("unsupported-media-type", sentence)
        return await handler(request)

    return check


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
