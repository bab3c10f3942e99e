"""Where a request comes from, also through the process in front of several (app/ops/processes/front.py)."""

import hmac
import os
from typing import Final

from aiohttp import web

#: A secret that the process in front shares with those behind it: nobody else is believed about addresses.
PROOF: Final = "PUNCTUAL_FRONT_PROOF"
PROOF_HEADER: Final = "X-Punctual-Front"
ADDRESS_HEADER: Final = "X-Punctual-Address"


def address(request: web.Request) -> str | None:
    """Return the address that a request comes from, as the process in front says, or as the connection has it."""
    proof, shown = os.environ.get(PROOF, ""), request.headers.get(PROOF_HEADER, "")
    if proof and hmac.compare_digest(proof.encode(), shown.encode()):
        return request.headers.get(ADDRESS_HEADER)
    return request.remote
