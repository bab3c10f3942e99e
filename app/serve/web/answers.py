"""Answers in JSON: all of the API's are made here."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer whose body is an object in JSON."""
    return web.Response(
        body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json", charset="utf-8"
    )
