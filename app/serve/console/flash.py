"""The outcome of an action, shown on the next page: kept in a short-lived cookie, so that any worker shows it."""

from typing import Final, Literal

import msgspec
from aiohttp import web

from app.serve.access.sessions import packed, unpacked

_NAME: Final = "punctual-outcome"
_KEPT_S: Final = 60
_LONGEST: Final = 600


class Flash(msgspec.Struct, frozen=True):
    """A sentence, and its level: "good" for a success, else "late"."""

    level: Literal["good", "late"]
    sentence: str


def see_other(address: str, *, success: bool, sentence: str) -> web.Response:
    """Return the response to a form: a redirect to `address`, which shows the sentence."""
    response = web.Response(status=web.HTTPSeeOther.status_code, headers={"Location": address})
    text, path = packed(Flash("good" if success else "late", sentence[:_LONGEST])), address.partition("?")[0]
    response.set_cookie(_NAME, text, max_age=_KEPT_S, path=path, httponly=True, samesite="Strict")
    return response


def read(request: web.Request) -> Flash | None:
    """Return the outcome of the action before, for this page, or None."""
    return unpacked(request.cookies.get(_NAME, ""), Flash)
