"""Makes all JSON responses of the API, and abbreviates numbers for them and for pages."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import msgspec
from aiohttp import web


def as_json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response whose body is `body` in JSON."""
    raw, kind = msgspec.json.encode(body), "application/json"
    return web.Response(body=raw, status=status, headers=headers, content_type=kind, charset="utf-8")


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run without gaps."""
    runs = groupby(enumerate(sorted(numbers)), lambda one: one[1] - one[0])
    groups = [[number for _, number in run] for _, run in runs]
    return [(group[0], group[-1]) for group in groups]


async def live(_request: web.Request) -> web.Response:
    """Answer GET /health/live with 200 while the process answers at all."""
    return as_json({"live": True})
