"""Executes requests with an Idempotency-Key once, on all routes that schedule messages or send commands.

Workers and gateways do the same, and share their keys.

The header is an Item of RFC 8941 that is a String (draft-ietf-httpapi-idempotency-key-header).
"""

import asyncio
import contextlib
import functools
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from app.base.errors import PunctualError
from app.base.listening.bodies import read_body
from app.base.process.datadir import stored_value
from app.base.process.disk_room import DiskRoom
from app.base.process.fatal import end_process, telling
from app.engine.topics.creation import ensure_receipts
from app.kafka.produce.sender import Sender
from app.serve.access.caller import caller_of
from app.serve.access.permissions import NEEDS
from app.serve.keys.follower import ReceiptFollower, ReceiptWriter
from app.serve.keys.keys import Keys
from app.serve.keys.receipt import FirstReceipt, GivenAnswer, keyed_origin, request_digest
from app.serve.keys.store import KeyStore, KeysUnwritable
from app.serve.messages.receipts import ORIGIN
from app.serve.messages.routes import AGAIN, MESSAGES
from app.serve.web.guard import SAFE, route_of
from app.serve.web.problem import Problem
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings
from tables.errors import TableError

HEADER: Final = "Idempotency-Key"
LONGEST: Final = 255
#: The header of a response that was given before.
REPLAYED: Final = "Idempotency-Replayed"

#: The routes that schedule messages or send commands, with one response.
_PLACES: Final = frozenset(route for route, need in NEEDS.items() if need == "operator" and MESSAGES in route)
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
#: The directory of the keys, in the data directory.
KEYS = "keys"


class KeyService:
    """The keys of a server while it runs; they are opened when they are needed, because most servers see none."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: TopicSettings,
        path: Path,
        now_ms: Callable[[], int],
        sender: Callable[[], Awaitable[Sender]],
        *,
        without_kafka: bool = True,
    ) -> None:
        """Store keys in the data directory `path`, and write them with the sender that `sender` returns.

        With `without_kafka`, requests succeed while Kafka is down, so keys do too.
        """
        self._kafka, self._topics, self._path, self._now_ms = kafka, topics, path, now_ms
        self._sender, self._without_kafka = sender, without_kafka
        self._store: KeyStore | None = None
        self._running: asyncio.Task[None] | None = None

    def open(self) -> Keys:
        """Open the store and return the keys. Raises a TableError or DataDirectoryUnusable if the disk fails."""
        if self._store is None:
            kafka, topics = self._kafka, self._topics
            name = stored_value(self._path, "gateway-id", uuid.uuid4().hex)
            self._store = KeyStore(self._path / KEYS)
            options: Mapping[str, Any] = {"bootstrap_servers": kafka.bootstrap, **kafka.options()}
            ensure = functools.partial(ensure_receipts, kafka, topics)
            self.follower = ReceiptFollower(topics.receipts, self._store, ensure, options)
            self._keys = Keys(
                name, self._store, self.follower, self._now_ms, DiskRoom(self._path), without_kafka=self._without_kafka
            )
        return self._keys

    def begin(self) -> Keys:
        """Return the keys, opened and followed until end(). Raises KeysUnwritable if the disk fails."""
        try:
            keys = self.open()
        except (TableError, PunctualError) as error:
            raise KeysUnwritable(error) from error
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(keys))
            self._running.add_done_callback(telling(end_process))
        return keys

    async def _run(self, keys: Keys) -> None:
        """Follow the topic, and write to it once there is a sender, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follower.run())
            tasks.create_task(keys.run())
            keys.connected(ReceiptWriter(tasks, await self._sender(), self._topics.receipts, self._now_ms))

    async def end(self) -> None:
        """Stop following, and close the store; a second call has no effect."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._running})
        if self._store is not None:
            self._store.close()


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
            raise _malformed(f"{request.path} does not support {HEADER}. Give each record a delay-id header instead.")
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
    """Return the key in the header's lines. Raises Problem with a sentence, which does not show the key."""
    if len(lines) != 1:
        raise _malformed(f"There are {len(lines)} {HEADER} headers; send one.")
    item = _ITEM.fullmatch(lines[0])
    if item is None:
        raise _malformed(f'{HEADER} must be a string of printable ASCII in double quotes: {HEADER}: "8e03978e-40d5".')
    key = _ESCAPED.sub(r"\1", item[1])
    if not 1 <= len(key) <= LONGEST:
        raise _malformed(f"{HEADER} has {len(key)} characters. It must have 1 to {LONGEST}.")
    return key


def _malformed(sentence: str) -> Problem:
    return Problem("idempotency-key", sentence)
