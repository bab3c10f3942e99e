"""Bounds what bodies of requests take of the gateway's memory, all of them together; none may be packed."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from app.access.needs import place_of
from app.gateway.limits import BODIES_BYTES, STREAM_BYTES
from app.gateway.problem import Problem
from app.gateway.protocol import TooSlow

_RETRY: Final = {"Retry-After": "1"}


class Bodies:
    """Lets requests in while their bodies have room."""

    def __init__(self, most: int) -> None:
        """Take bodies of at most `most` bytes each."""
        self._most, self._taken = most, 0

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, or raise the Problem that says why not."""
        if not request.body_exists:
            return await handler(request)
        coding = request.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            sentence = f"The body is packed ({coding:.32}): send it as it is."
            raise Problem("unsupported-media-type", sentence, headers={"Accept-Encoding": "identity"})
        length, size = request.content_length, self._size(request)
        if length is not None and length > self._most:
            sentence = f"The body has {length} bytes, it can have {self._most}. Send fewer messages in a request."
            raise Problem("body-too-large", sentence)
        if self._taken + size > BODIES_BYTES:
            sentence = "Too many large requests are being read. Send this one again in a second."
            raise Problem("busy", sentence, headers=_RETRY)
        self._taken += size
        try:
            return await handler(request)
        except TooSlow:
            sentence = "The body has come too slowly. Send it again."
            raise Problem("timeout", sentence, headers={"Connection": "close"}) from None
        except asyncio.IncompleteReadError as error:
            raise Problem("bad-request", "The body has ended too soon.") from error
        finally:
            self._taken -= size

    def _size(self, request: web.Request) -> int:
        """Return what a body may take; one that comes record by record takes little, however long it is."""
        length = request.content_length
        if length is None and (place_of(request) or "").endswith("/records"):
            return min(self._most, STREAM_BYTES)
        return self._most if length is None else length


def middleware(bodies: Bodies) -> Middleware:
    """Return the bound as aiohttp takes it."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await bodies.check(request, handler)

    return check
