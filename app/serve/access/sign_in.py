"""The sign-in: its URLs, and its state in a browser's cookie until the provider sends the browser back."""

import re
import secrets
from typing import Final, Self
from urllib.parse import urlencode

import msgspec
from aiohttp import web

SIGN_IN: Final = "/sign-in"
#: The maximum time of a sign-in.
PATIENCE_S: Final = 600
_LOCAL: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1023}")


class ProviderFailed(Exception):
    """The provider does not answer, answers wrongly, or did not issue a token; the message is a sentence."""


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Proves that a response of the provider belongs to the browser that asked; `back` is the URL to return to."""

    state: str
    nonce: str
    verifier: str
    back: str
    began_s: int

    @classmethod
    def begin(cls, back: str, now_s: int) -> Self:
        """Return a new sign-in with random secrets."""
        state, nonce, verifier = (secrets.token_urlsafe(length) for length in (24, 24, 48))
        return cls(state=state, nonce=nonce, verifier=verifier, back=local_address(back), began_s=now_s)


def local_address(address: str) -> str:
    """Return a path and query of this server; "/" for any URL that may lead elsewhere."""
    return address if _LOCAL.fullmatch(address) else "/"


def redirect_to_sign_in(request: web.Request) -> web.StreamResponse:
    """Return a redirect to the sign-in page, from which users return to this page, or to "/" after a POST."""
    back = request.rel_url.raw_path_qs if request.method in ("GET", "HEAD") else "/"
    return redirect(f"{SIGN_IN}?{urlencode({'next': back})}")


def redirect(address: str) -> web.Response:
    """Return a redirect to another URL."""
    return web.Response(status=web.HTTPSeeOther.status_code, headers={"Location": address})
