"""Runs a gateway with one small route more: POST /test/records takes records for the requests topic as JSON.

For tests of what is behind the routes. Each item has `to`, `at` (epoch ms), `key`, `value` and `id`, all text.
"""

import sys

import msgspec
from aiohttp import web
from faust.cli.base import cli

from app.gateway import gateway
from app.gateway.parts import Parts
from app.gateway.submission import Refused, SpoolFull, Submission


class Item(msgspec.Struct):
    """A message."""

    to: str
    at: int
    key: str
    value: str
    id: str = ""


def register(web_app: web.Application, parts: Parts) -> None:
    """Add the route."""
    decode = msgspec.json.Decoder(list[Item]).decode

    async def take(request: web.Request) -> web.Response:
        items = decode(await request.read())
        try:
            outcomes = await parts.intake.submit([_submission(parts, item) for item in items])
        except SpoolFull as error:
            return web.Response(status=503, text=str(error), headers={"Retry-After": str(error.retry_after_s)})
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        if refused:
            return web.Response(status=422, text=refused[0].sentence)
        return web.Response(status=202 if any(outcome.spooled for outcome in outcomes) else 201)  # type: ignore[union-attr]

    web_app.router.add_post("/test/records", take)


def _submission(parts: Parts, item: Item) -> Submission:
    id_ = item.id or parts.receipts.id(item.key.encode())
    headers: list[tuple[str, bytes | None]] = [
        ("delay-to", item.to.encode()),
        ("delay-at", str(item.at).encode()),
        ("delay-id", id_.encode()),
        ("delay-dedupe", b"PT24H"),
        ("delay-asked-at", str(parts.receipts.moment_ms()).encode()),
    ]
    return Submission(parts.settings.requests, None, item.key.encode(), item.value.encode(), headers, id_)


if __name__ == "__main__":
    gateway.REGISTER = (*gateway.REGISTER, register)  # type: ignore[misc]
    sys.argv[0] = "faust"
    cli(prog_name="faust")
