"""Makes all JSON responses of the API."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response whose body is `body` in JSON."""
    raw, kind = msgspec.json.encode(body), "application/json"
    return web.Response(body=raw, status=status, headers=headers, content_type=kind, charset="utf-8")
