"""Resolves a host once: all its addresses are looked at, and what was looked at is what is connected to."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from app.http.addresses import Address

#: So many names are asked for at the same time; whoever knows none of them takes one's place alone.
_AT_ONCE = 64


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
            raise AddressRefused(f"{host} has an address that must not be reached")
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
        self._asking: dict[str, asyncio.Future[list[Any]]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return a host's addresses. Raises OSError if it has none."""
        async with self._room:
            found = await asyncio.shield(self._asking.get(host) or self._ask(host, family))
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=port,
                family=of,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for of, _, _, _, address in found
        ]

    def _ask(self, host: str, family: socket.AddressFamily) -> "asyncio.Future[list[Any]]":
        loop = asyncio.get_running_loop()
        answer = self._asking[host] = loop.create_future()

        def end(found: list[Any] | None, error: OSError | None) -> None:
            self._asking.pop(host, None)
            if answer.cancelled():
                return
            if error is not None:
                answer.set_exception(error)
                answer.exception()  # whoever asked may not have waited for it
            else:
                answer.set_result(found or [])

        def ask() -> None:
            try:
                said: tuple[list[Any] | None, OSError | None] = (
                    socket.getaddrinfo(host, None, family, socket.SOCK_STREAM),
                    None,
                )
            except (OSError, UnicodeError) as error:
                said = None, error if isinstance(error, OSError) else OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it
                loop.call_soon_threadsafe(end, *said)

        threading.Thread(target=ask, daemon=True, name="names").start()
        return answer

    async def close(self) -> None:
        """Leave what is asked to its end."""
