"""The origin of a request: the client's address, also through the front process, and the site whose page sent it."""

import hmac
import os
from typing import Final

from aiohttp import web

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
