"""Renews SASL sessions on the same connection before brokers end them (KIP-368).

A broker with connections.max.reauth.ms, or with a token that has expired, cuts a connection at its next request.
aiokafka does not support that: it takes each cut for a lost connection, and its user for a lost leader.
"""

import asyncio
import random
import weakref
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

#: The part of a session after which it is renewed, as in Java's clients (SaslClientAuthenticator).
_FROM, _TO = 0.85, 0.95
_OF_A_LOGIN: Final = (SaslHandShakeRequest, SaslAuthenticateRequest)

_handshake = AIOKafkaConnection._do_sasl_handshake  # noqa: SLF001 - aiokafka's own, conn.py


def install() -> None:
    """Renew the sessions of connections that are opened from now on."""
    AIOKafkaConnection._do_sasl_handshake = _logged_in  # noqa: SLF001 - the same


async def _logged_in(self: Any) -> None:
    """Log in as aiokafka does; other requests wait until the end, because a broker accepts none in between."""
    lasts_ms, send, over = 0, self.send, asyncio.Event()

    async def login(request: Any) -> Any:
        nonlocal lasts_ms
        answer = await send(request)
        lasts_ms = getattr(answer, "session_lifetime_ms", 0)
        return answer

    async def afterwards(request: Any, **options: Any) -> Any:
        await over.wait()
        return await send(request, **options)

    def sent(request: Any, *args: Any, **options: Any) -> Any:
        if isinstance(request, _OF_A_LOGIN):
            return login(request)
        return afterwards(request, **(options | ({"expect_response": args[0]} if args else {})))

    self.send = sent
    try:
        await _handshake(self)
    finally:
        del self.send
        over.set()
    if lasts_ms > 0:
        delay_s = lasts_ms / 1000 * random.uniform(_FROM, _TO)  # noqa: S311 - only spreads load
        self._loop.call_later(delay_s, _renew, weakref.ref(self))


def _renew(connection: "weakref.ref[Any]") -> None:
    there = connection()
    if there is not None and there.connected():
        task = there._loop.create_task(there._do_sasl_handshake())  # noqa: SLF001 - its own loop, in whatever thread
        _renewing.add(task)
        task.add_done_callback(_renewed)


#: Keeps the tasks alive, because loops have only weak references to tasks.
_renewing: Final[set[asyncio.Task[None]]] = set()


def _renewed(task: "asyncio.Task[None]") -> None:
    """Forget a renewal. A failed one has closed its connection, and the next connection reports why."""
    _renewing.discard(task)
    if not task.cancelled():
        task.exception()
