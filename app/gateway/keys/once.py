"""Has requests with an Idempotency-Key carried out once: around all addresses that take something."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from app.gateway.caller import caller_of
from app.gateway.keys.digests import request_digest
from app.gateway.keys.errors import KeyRefused
from app.gateway.keys.field import HEADER, key_of
from app.gateway.keys.keys import Asked, Keys
from app.gateway.keys.receipt import Answer
from app.gateway.keys.service import KeyService
from app.gateway.problem import Problem
from app.process.fatal import end_process
from app.process.tasks import telling

#: Where a request with a key has what its messages take from its first receipt.
ASKED: Final = web.RequestKey("asked", Asked)
#: Where a handler says that something of the request was not done that may be when it comes again.
AGAIN: Final = web.RequestKey("again", bool)
#: Whether an answer is one that was given before.
REPLAYED: Final = "Idempotency-Replayed"

_METHODS: Final = frozenset({"POST", "PATCH", "DELETE"})
#: Headers that belong to an answer.
_KEPT: Final = ("Content-Type", "Location", "ETag")
_LAST_SUCCESS: Final = 299


class Once:
    """Looks whether a request has a key, and what has become of it."""

    def __init__(self, keys: Keys) -> None:
        """Ask these keys."""
        self._keys = keys

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, once for its key. Raises the Problem that says why not."""
        if request.method not in _METHODS or HEADER not in request.headers:
            return await handler(request)
        try:
            return await self._once(request, handler)
        except KeyRefused as refused:
            headers = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
            raise Problem(refused.problem, f"{refused}.".capitalize(), headers=headers) from refused

    async def _once(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = key_of(request.headers.getall(HEADER))
        assert key is not None, "the header is there"
        digest = request_digest(request.method, request.path_qs, await request.read())
        given: list[web.StreamResponse] = []

        async def submit(asked: Asked) -> tuple[Answer, bool]:
            request[ASKED] = asked
            answer = await handler(request)
            given.append(answer)
            return _kept(answer), answer.status <= _LAST_SUCCESS and not request.get(AGAIN, False)

        answer, old = await self._keys.once(caller_of(request).name, key, digest, submit)
        return _replayed(answer) if old else given[0]


def _kept(answer: web.StreamResponse) -> Answer:
    assert isinstance(answer, web.Response), "what takes something answers at once"
    body = answer.body if isinstance(answer.body, bytes | bytearray) else b""
    headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    return Answer(answer.status, bytes(body).decode(), headers)


def _replayed(answer: Answer) -> web.Response:
    return web.Response(body=answer.body.encode(), status=answer.status, headers={**answer.headers, REPLAYED: "true"})


def middleware(once: Once) -> Middleware:
    """Return it as aiohttp takes it."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await once.check(request, handler)

    return check


def running(service: KeyService, sender: Callable[[], Awaitable[object]]) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return what runs a service of keys while an application runs."""
    raise NotImplementedError
