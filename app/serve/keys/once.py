"""Executes requests with an Idempotency-Key once, on all routes that schedule messages or send commands.

Workers and gateways do the same, and share their keys.

The header is an Item of RFC 8941 that is a String (draft-ietf-httpapi-idempotency-key-header).
"""

import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from app.base.listening.bodies import read_body
from app.serve.access.caller import caller_of
from app.serve.keys.errors import KeyMalformed, KeysUnwritable
from app.serve.keys.receipt import FirstReceipt, GivenAnswer, keyed_origin, request_digest
from app.serve.keys.service import KeyService
from app.serve.messages.receipts import ORIGIN
from app.serve.messages.routes import AGAIN
from app.serve.web.guard import SAFE, route_of
from app.settings.topics import TopicSettings

HEADER: Final = "Idempotency-Key"
LONGEST: Final = 255
#: The header of a response that was given before.
REPLAYED: Final = "Idempotency-Replayed"

#: The routes that schedule messages or send commands, with one response.
_PLACES: Final = frozenset(
    {
        "POST /api/v1/messages",
        "PATCH /api/v1/messages/{id}",
        "DELETE /api/v1/messages/{id}",
        *(
            f"POST /api/v1/messages/{{id}}/{action}"
            for action in ("cancel", "reschedule", "deliver-now", "pause", "resume")
        ),
    }
)
#: The headers that are stored with a response.
_KEPT: Final = ("Content-Type", "Location", "ETag")
_LAST_SUCCESS: Final = 299
#: The prefix that the addresses of gateways got in this release: a key that was used before still holds.
_PREFIX: Final = "/api"
_STRING: Final = r'"((?:[ !#-\[\]-~]|\\["\\])*)"'
_BARE: Final = (
    r'(?:-?\d{1,15}(?:\.\d{1,3})?|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#$%&\'*+.^_`|~0-9A-Za-z:/-]*'
    r"|:[A-Za-z0-9+/=]*:|\?[01])"
)
#: Parameters of an Item (RFC 8941, 3.1.2) are allowed and ignored.
_ITEM: Final = re.compile(rf" *{_STRING}(?:; *[a-z*][a-z0-9_.*-]*(?:={_BARE})?)* *", re.ASCII)
_ESCAPED: Final = re.compile(r"\\(.)")


def register(web_app: web.Application, keys: KeyService, topics: TopicSettings, *, at_start: bool) -> None:
    """Add idempotency keys to an application that has not started, after the gate; the first key opens `keys`.

    With `at_start` they are opened when the application starts, so that the first request with a key need not wait.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, once for its key. Raises Problem if it is refused."""
        if HEADER not in request.headers or request.method in SAFE:
            return await handler(request)
        if route_of(request) not in _PLACES:
            raise KeyMalformed(f"{request.path} does not support {HEADER}. Give each record a delay-id header instead.")
        key = key_of(request.headers.getall(HEADER))
        digest = request_digest(request.method, request.path_qs.removeprefix(_PREFIX), await read_body(request))
        response: web.StreamResponse | None = None

        async def submit(first: FirstReceipt) -> tuple[GivenAnswer, bool]:
            nonlocal response
            request[ORIGIN] = keyed_origin(first, topics.requests, topics.partitions)
            response = await handler(request)
            return _kept(response), response.status <= _LAST_SUCCESS and not request.get(AGAIN, False)

        answer, old = await keys.begin().once(caller_of(request).login, key, digest, submit)
        if response is not None and not old and _kept(response) == answer:
            return response
        headers = {**answer.headers, REPLAYED: "true"}
        return web.Response(body=answer.body.encode(), status=answer.status, headers=headers)

    async def run(_: web.Application) -> AsyncIterator[None]:
        if at_start:
            with contextlib.suppress(KeysUnwritable):  # requests with a key are refused
                keys.begin()
        yield
        await keys.end()

    web_app.middlewares.append(check)
    web_app.cleanup_ctx.append(run)


def _kept(answer: web.StreamResponse) -> GivenAnswer:
    assert isinstance(answer, web.Response), "what takes something answers at once"
    body = answer.body if isinstance(answer.body, bytes | bytearray) else b""
    headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    return GivenAnswer(answer.status, bytes(body).decode(), headers)


def key_of(lines: Sequence[str]) -> str:
    """Return the key in the header's lines. Raises KeyMalformed with a sentence, which does not show the key."""
    if len(lines) != 1:
        raise KeyMalformed(f"There are {len(lines)} {HEADER} headers; send one.")
    item = _ITEM.fullmatch(lines[0])
    if item is None:
        raise KeyMalformed(f'{HEADER} must be a string of printable ASCII in double quotes: {HEADER}: "8e03978e-40d5".')
    key = _ESCAPED.sub(r"\1", item[1])
    if not 1 <= len(key) <= LONGEST:
        raise KeyMalformed(f"{HEADER} has {len(key)} characters. It must have 1 to {LONGEST}.")
    return key
