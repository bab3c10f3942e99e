"""Resolves a host once: all its addresses are looked at, and what was looked at is what is connected to."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from app.base.http.addresses import Address

#: How many names are looked up at the same time, and how many more that took at most `_QUICK_S` the last time: names
#: whose servers do not answer never take the room of names that are found.
_AT_ONCE, _KEPT, _QUICK_S = 64, 64, 1.0
_REMEMBERED = 10_000


class AddressRefused(OSError):
    """A host has an address that must not be connected to."""


class CheckedResolver(AbstractResolver):
    """Resolves as another resolver does, and refuses a host if any of its addresses is none that it `may` reach.

    The connection is made to one of the addresses that it returns (aiohttp/connector.py, `_create_direct_connection`):
    nobody asks for them a second time. The host's name stays what the certificate and the Host header are about.
    """

    def __init__(self, resolver: AbstractResolver, may: Callable[[Address], bool]) -> None:
        """Ask `resolver`."""
        self._resolver, self._may = resolver, may

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return a host's addresses. Raises AddressRefused."""
        found = await self._resolver.resolve(host, port, family)
        if not all(self._may(ip_address(one["host"])) for one in found):
            raise AddressRefused(f"{host} has an address that is not allowed")
        return found

    async def close(self) -> None:
        """Close the other resolver."""
        await self._resolver.close()


class SystemResolver(AbstractResolver):
    """Resolves as the system does, each name in a thread of its own, once for all that ask for it at the same time.

    The loop's own threads for that are few (uvloop: four), and names whose servers do not answer would take them all.
    """

    def __init__(self) -> None:
        """Ask nobody yet."""
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
            for of, _, _, _, address in await asyncio.shield(asking)  # who stops waiting leaves it to others
        ]

    async def _ask(self, host: str, family: socket.AddressFamily) -> list[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()

        def ask() -> None:
            end, said = answer.set_result, list[Any]()
            try:
                said = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                failure = error if isinstance(error, OSError) else OSError(str(error))
                end = lambda _: answer.set_exception(failure)  # noqa: E731 - it is said once
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it
                loop.call_soon_threadsafe(lambda: answer.done() or end(said))

        async with self._kept if host in self._quick else self._room:
            self._quick.pop(host, None)
            began = loop.time()
            threading.Thread(target=ask, daemon=True, name="names").start()
            found = await answer
            if loop.time() - began <= _QUICK_S:
                self._note_quick(host)
            return found

    def _note_quick(self, host: str) -> None:
        if len(self._quick) >= _REMEMBERED:
            del self._quick[next(iter(self._quick))]
        self._quick[host] = None

    def _answered(self, host: str, asking: "asyncio.Task[list[Any]]") -> None:
        del self._asking[host]
        if not asking.cancelled():
            asking.exception()  # whoever asked may not have waited for it

    async def close(self) -> None:
        """Leave what is asked to its end."""
