"""Makes all JSON responses of the API."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response whose body is `body` in JSON."""
    return web.Response(
        body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json", charset="utf-8"
    )
