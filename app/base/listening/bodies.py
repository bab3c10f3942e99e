"""Limits the memory of all request bodies of a server together; compressed bodies are refused."""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import ClientPayloadError, StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from app.base.listening.limits import HttpRefusal, HttpRefusals, network
from app.base.listening.protocol import TooSlow
from app.base.places import Places

_BODY: Final = web.RequestKey("body", bytes)
_RETRY: Final = {"Retry-After": "1"}
#: Exceptions from reading a body that is cut off or malformed.
_BAD: Final = (web.RequestPayloadError, HttpProcessingError, ClientPayloadError)


class Bodies:
    """Accepts requests while there is room for their bodies."""

    def __init__(
        self,
        refusals: HttpRefusals,
        most: int,
        together: int,
        size_of: Callable[[web.Request], int | None] | None = None,
    ) -> None:
        """Accept bodies of at most `most` bytes each, and `together` at a time.

        A body of unknown length counts as `size_of` the request, or as `most`.
        """
        self._refusals, self._most = refusals, most
        self._size_of = size_of or _unknown
        self._places = Places(together)

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request with `handler`, or raise the error that refuses its body."""
        if not request.body_exists:
            return await handler(request)
        size = self._size(request)
        refusal = self._refusal(request)
        if refusal is not None:
            raise self._refusals.error(refusal)
        who = network(request.remote)
        if not self._places.take(who, size):
            sentence = "Too many large requests are being read. Send this one again in a second."
            raise self._refusals.error(HttpRefusal("busy", 503, sentence, _RETRY))
        try:
            return await handler(request)
        except TooSlow:
            refusal = HttpRefusal(
                "timeout", 408, "The body arrived too slowly. Send it again.", {"Connection": "close"}
            )
        except asyncio.IncompleteReadError:
            refusal = HttpRefusal("bad-request", 400, "The body is incomplete.")
        except _BAD as error:  # the error's text quotes the body
            refusal = HttpRefusal("bad-request", 400, f"The body cannot be read: {type(error).__name__}.")
        finally:
            self._places.leave(who, size)
        raise self._refusals.error(refusal)

    def _refusal(self, request: web.Request) -> HttpRefusal | None:
        """Return why a body is refused before it is read, or None."""
        codings = request.headers.getall("Content-Encoding", [])
        packed = next((coding for coding in codings if coding.strip().lower() not in ("", "identity")), None)
        if packed is not None:
            sentence = f"The body has the encoding {packed:.32}, which is not supported. Send it without compression."
            return HttpRefusal("unsupported-media-type", 415, sentence, {"Accept-Encoding": "identity"})
        length = request.content_length
        if length is not None and length > self._most:
            sentence = f"The body has {length} bytes. The maximum is {self._most}. Send less in one request."
            return HttpRefusal("body-too-large", 413, sentence)
        return None

    def _size(self, request: web.Request) -> int:
        """Return the bytes to reserve for a body."""
        length = request.content_length
        if length is not None:
            return length
        size = self._size_of(request)
        return self._most if size is None else min(self._most, size)


def _unknown(_request: web.Request) -> None:
    return None


def middleware(bodies: Bodies) -> Middleware:
    """Return the limit as a middleware of aiohttp."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await bodies.check(request, handler)

    return check


async def read_body(request: web.Request) -> bytes:
    """Return the body of a request, the same at each call.

    Raises HTTPRequestEntityTooLarge beyond the maximum of the application.

    aiohttp's `Request.read` would let the connection read ahead as much as the maximum, and again.
    """
    body = request.get(_BODY)
    if body is None:
        body = await read_bounded(request.content, request.client_max_size)
        if body is None:
            raise web.HTTPRequestEntityTooLarge(request.client_max_size)
        request[_BODY] = body
    return body


async def read_bounded(content: StreamReader, max_bytes: int) -> bytes | None:
    """Return all of a stream, None if it has more than `max_bytes`. StreamReader.read() may return only a part."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)
