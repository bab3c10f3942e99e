"""Resolves a host once: all its addresses are checked, and the connection uses a checked address."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from app.base.http.addresses import Address

#: The maximum of concurrent lookups, and of those for names that took at most `_QUICK_S` the last time: names whose
#: servers do not answer cannot take the room of other names.
_AT_ONCE, _KEPT, _QUICK_S = 64, 64, 1.0
_REMEMBERED = 10_000


class AddressRefused(OSError):
    """A host has an address that must not be connected to."""


class CheckedResolver(AbstractResolver):
    """Resolves through another resolver, and refuses a host if `may` refuses any of its addresses.

    The connection is made to one of the returned addresses (aiohttp/connector.py, `_create_direct_connection`), without
    a second lookup. The certificate and the Host header still use the host's name.
    """

    def __init__(self, resolver: AbstractResolver, may: Callable[[Address], bool]) -> None:
        """Check the results of `resolver` with `may`."""
        self._resolver, self._may = resolver, may

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return a host's addresses. Raises AddressRefused if one is not allowed."""
        addresses = await self._resolver.resolve(host, port, family)
        if not all(self._may(ip_address(one["host"])) for one in addresses):
            raise AddressRefused(f"{host} has an address that is not allowed")
        return addresses

    async def close(self) -> None:
        """Close the other resolver."""
        await self._resolver.close()


class SystemResolver(AbstractResolver):
    """Resolves names through the system, each in its own thread, once for all concurrent callers.

    The loop's own threads are few (uvloop: four), and names whose servers do not answer would take them all.
    """

    def __init__(self) -> None:
        """Begin without lookups."""
        self._asking: dict[str, asyncio.Task[list[Any]]] = {}
        self._room, self._kept = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_KEPT)
        self._quick: dict[str, None] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return a host's addresses. Raises OSError if it has none."""
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.get_running_loop().create_task(self._ask(host, family))
            asking.add_done_callback(lambda task: self._answered(host, task))
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=port,
                family=of,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for of, _, _, _, address in await asyncio.shield(asking)  # cancelled callers leave it to the others
        ]

    async def _ask(self, host: str, family: socket.AddressFamily) -> list[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()

        def ask() -> None:
            end, result = answer.set_result, list[Any]()
            try:
                result = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                failure = error if isinstance(error, OSError) else OSError(str(error))
                end = lambda _: answer.set_exception(failure)  # noqa: E731 - it is called only once
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller is left
                loop.call_soon_threadsafe(lambda: answer.done() or end(result))

        async with self._kept if host in self._quick else self._room:
            self._quick.pop(host, None)
            began = loop.time()
            threading.Thread(target=ask, daemon=True, name="names").start()
            addresses = await answer
            if loop.time() - began <= _QUICK_S:
                self._note_quick(host)
            return addresses

    def _note_quick(self, host: str) -> None:
        if len(self._quick) >= _REMEMBERED:
            del self._quick[next(iter(self._quick))]
        self._quick[host] = None

    def _answered(self, host: str, asking: "asyncio.Task[list[Any]]") -> None:
        del self._asking[host]
        if not asking.cancelled():
            asking.exception()  # marks the error as seen, because every caller may have stopped waiting

    async def close(self) -> None:
        """Leave running lookups to their end."""
