"""The gateway's connections: how many there may be, of one address too, and an end to those that are too slow."""

import asyncio
import logging
import resource
from collections import Counter
from typing import Any, Final

from aiohttp import web

from app.access.failures import network
from app.gateway.limits import SERVER
from app.gateway.protocol import ClientConnection
from app.gateway.refusals import cut_off
from app.process.fatal import end_process
from app.process.tasks import telling

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
#: Files, and connections to brokers.
_OTHER_FILES: Final = 1_000


class Server(web.Server):
    """Makes connections, as many as there may be.

    Beyond that, the one that has been idle for longest makes room; if all are busy, the new one is not taken.
    """

    def __init__(self, most: int, most_of_one: int, *arguments: Any, **options: Any) -> None:
        """Have at most so many, and so many of one address (of one /64, for IPv6)."""
        super().__init__(*arguments, **options)
        self._most, self._most_of_one = most, most_of_one
        self._addresses: dict[ClientConnection, str] = {}
        self._by_address = Counter[str]()

    def __call__(self) -> web.RequestHandler:
        """Return a new connection."""
        return ClientConnection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection, or end it."""
        super().connection_made(handler, transport)
        assert isinstance(handler, ClientConnection), "they are made here"
        peer = transport.get_extra_info("peername")
        address = network(peer[0] if isinstance(peer, tuple) else None)
        self._addresses[handler] = address
        self._by_address[address] += 1
        if self._by_address[address] > self._most_of_one:
            self._make_room(transport, "address", address)
        elif len(self._addresses) > self._most:
            self._make_room(transport, "many", None)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        address = self._addresses.pop(handler, None)  # type: ignore[call-overload] # they are made here
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _make_room(self, new: asyncio.Transport, reason: str, address: str | None) -> None:
        """End the oldest idle connection, of one address if there are too many of that; or else the new one."""
        cut_off(reason)
        for handler, other in self._addresses.items():
            transport = self._connections.get(handler)
            if address in (None, other) and handler.idle and transport is not None and not transport.is_closing():
                transport.abort()
                return
        new.abort()

    async def watch(self) -> None:
        """End what is too slow, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = self._loop.time()
            for handler in list(self._addresses):
                too_slow = handler.look(now_s)
                if too_slow is not None:
                    cut_off(too_slow)


class Runner(web.AppRunner):
    """Runs an application with the gateway's connections."""

    def __init__(self, web_app: web.Application, most: int, most_of_one: int, **options: Any) -> None:
        """Have at most so many connections."""
        super().__init__(web_app, access_log=None, **(SERVER | options))
        self._bounds = most, most_of_one
        self._watching: asyncio.Task[None] | None = None

    __slots__ = ("_bounds", "_watching")

    async def _make_server(self) -> web.Server:
        usual = await super()._make_server()
        most, most_of_one = self._bounds
        server = Server(
            _open_files(most),
            most_of_one,
            usual.request_handler,
            request_factory=usual.request_factory,
            loop=asyncio.get_running_loop(),
            **usual._kwargs,  # noqa: SLF001 - aiohttp makes the server, and has no place to name another class
        )
        self._watching = asyncio.get_running_loop().create_task(server.watch())
        self._watching.add_done_callback(telling(end_process))
        return server

    async def cleanup(self) -> None:
        """Answer what is under way, and end."""
        if self._watching is not None:
            self._watching.cancel()
        await super().cleanup()


def _open_files(wanted: int) -> int:
    """Let this process have as many connections as are wanted, and return how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + _OTHER_FILES
    if soft < most:
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < most:
        log.warning("this process may open %d files (ulimit -n): it takes %d connections", soft, soft // 2)
        return min(wanted, soft // 2)
    return wanted
