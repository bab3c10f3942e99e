"""Answers to those who may not: a sentence, as JSON below /api/, else as text."""

from collections.abc import Mapping
from urllib.parse import urlencode

from aiohttp import web

from app.serve.web.answers import as_json

SIGN_IN = "/sign-in"


def refused(
    request: web.Request, status: int, sentence: str, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Return an answer that says why nothing is done."""
    if request.path.startswith("/api/"):
        return as_json({"error": sentence}, status, headers)
    return web.Response(text=f"{sentence[:1].upper()}{sentence[1:]}.\n", status=status, headers=headers)


def see_sign_in(request: web.Request) -> web.StreamResponse:
    """Return the way to the page where people sign in; from there they come back, to a page that only shows."""
    back = request.rel_url.raw_path_qs if request.method in ("GET", "HEAD") else "/"
    return see(f"{SIGN_IN}?{urlencode({'next': back})}")


def see(address: str) -> web.Response:
    """Return an answer that leads to another address."""
    return web.Response(status=web.HTTPSeeOther.status_code, headers={"Location": address})
