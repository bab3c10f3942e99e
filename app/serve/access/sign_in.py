"""Sign-in: the addresses it leads to, and what a browser keeps of one until it comes back from the provider."""

import re
import secrets
from typing import Final, Self
from urllib.parse import urlencode

import msgspec
from aiohttp import web

SIGN_IN: Final = "/sign-in"
#: How long a sign-in may take.
PATIENCE_S: Final = 600
_LOCAL: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1023}")


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """What proves that an answer of the provider belongs to the browser that had asked, and where it goes on."""

    state: str
    nonce: str
    verifier: str
    back: str
    began_s: int

    @classmethod
    def begin(cls, back: str, now_s: int) -> Self:
        """Begin one, with secrets that nobody can guess."""
        state, nonce, verifier = (secrets.token_urlsafe(length) for length in (24, 24, 48))
        return cls(state=state, nonce=nonce, verifier=verifier, back=local_address(back), began_s=now_s)


def local_address(address: str) -> str:
    """Return an address of ours, its path and query; the first page for what leads, or might lead, anywhere else."""
    return address if _LOCAL.fullmatch(address) else "/"


def redirect_to_sign_in(request: web.Request) -> web.StreamResponse:
    """Return a redirect to the sign-in page; from there people come back, to a page that only shows."""
    back = request.rel_url.raw_path_qs if request.method in ("GET", "HEAD") else "/"
    return redirect(f"{SIGN_IN}?{urlencode({'next': back})}")


def redirect(address: str) -> web.Response:
    """Return a redirect to another address."""
    return web.Response(status=web.HTTPSeeOther.status_code, headers={"Location": address})
