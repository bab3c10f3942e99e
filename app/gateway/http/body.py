"""What a request brings: its body, if it is JSON."""

from collections.abc import Collection
from typing import Final

from aiohttp import web

from app.gateway.http import json_input
from app.gateway.http.problem import Problem

JSON: Final = ("application/json",)


def check_type(request: web.Request, types: Collection[str] = JSON) -> None:
    """Refuse a body of another media type, or of none: browsers let pages of other sites send such. Raises Problem."""
    if "Content-Type" not in request.headers or request.content_type not in types:
        sentence = f"The body must be {' or '.join(types)}, not {request.content_type:.64}."
        raise Problem("unsupported-media-type", sentence, headers={"Accept": ", ".join(types)})


async def read(request: web.Request, types: Collection[str] = JSON) -> bytes:
    """Return the body of a request, without blanks around it.

    Raises Problem, and HTTPRequestEntityTooLarge beyond what the application takes.
    """
    check_type(request, types)
    raw = (await request.read()).strip(json_input.SPACE)
    json_input.check_text(raw)
    json_input.check_json(raw)
    return raw
