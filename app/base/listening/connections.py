"""A server's connections: their maximum, in total and per address, and the end of slow ones."""

import asyncio
import logging
import resource
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from app.base.listening.limits import HttpRefusals, network, server_options
from app.base.listening.protocol import ClientConnection
from app.base.listening.tls import Certificate, Handshake
from app.base.listening.turns import Turns
from app.base.process.fatal import end_process, telling

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
#: Files for other purposes, and connections to brokers.
_OTHER_FILES: Final = 1_000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The maximum connections of a server, of one address, and the maximum bytes of one header.

    At the maximum, the connection that has been idle for longest makes room. If all are busy, a server with
    `newest_in` ends the oldest connection of the address that has most; other servers refuse the new one.
    """

    most: int
    most_of_one: int
    header_bytes: int
    newest_in: bool = False


class Server(web.Server):
    """Creates connections, within the limits, with TLS if there is a certificate."""

    def __init__(
        self,
        bounds: ConnectionLimits,
        refusals: HttpRefusals,
        certificate: Certificate | None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        """Create connections within `bounds`; `refusals` answers and counts refused ones."""
        super().__init__(*arguments, **options)
        self._bounds, self._refusals, self._certificate = bounds, refusals, certificate
        self._most = _open_files(bounds.most)
        self._addresses: dict[ClientConnection | Handshake, str] = {}
        self._by_address = Counter[str]()
        self._turns = Turns(self._loop)

    def __call__(self) -> Any:
        """Return the protocol of a new connection."""
        if self._certificate is None:
            return self._connection()
        return Handshake(self, self._certificate.context, self._connection)

    def _connection(self) -> ClientConnection:
        return ClientConnection(self._refusals, self._turns, self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Accept a connection, or close it."""
        super().connection_made(handler, transport)
        assert isinstance(handler, ClientConnection), "they are made here"
        self.admit(handler, transport)

    def admit(self, handler: ClientConnection | Handshake, transport: asyncio.Transport) -> None:
        """Count a connection, and end one if there are too many."""
        peer = transport.get_extra_info("peername")
        address = network(peer[0] if isinstance(peer, tuple) else None)
        if self._by_address[address] >= self._bounds.most_of_one:
            self._make_room(transport, "address", address)
        elif len(self._addresses) >= self._most:
            self._make_room(transport, "many", None)
        self._addresses[handler] = address
        self._by_address[address] += 1

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        assert isinstance(handler, ClientConnection), "they are made here"
        self.forget(handler)

    def forget(self, handler: ClientConnection | Handshake) -> None:
        """Count a connection no more."""
        address = self._addresses.pop(handler, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _make_room(self, new: asyncio.Transport, reason: str, address: str | None) -> None:
        """End one connection before a new one is added, of one address if it has too many."""
        self._refusals.cut_off(reason)
        oldest = self._oldest(address, only_idle=True)
        if oldest is None and self._bounds.newest_in:
            oldest = self._oldest(address or max(self._by_address, key=self._by_address.__getitem__), only_idle=False)
        if oldest is not None:
            oldest.abort()
        else:
            self._loop.call_soon(new.abort)  # aiohttp sets the connection up after this, and asserts that it is there

    def _oldest(self, address: str | None, *, only_idle: bool) -> asyncio.Transport | None:
        """Return the oldest connection, of one address if that is given."""
        for handler, other in self._addresses.items():
            transport = handler.transport
            if address in (None, other) and (handler.idle or not only_idle) and transport is not None:
                if transport.is_closing():
                    continue
                return transport
        return None

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """End the connections, also those in a handshake."""
        for handler in list(self._addresses):
            if isinstance(handler, Handshake) and handler.transport is not None:
                handler.transport.abort()
        await super().shutdown(timeout)

    async def watch(self) -> None:
        """End slow connections, and load a changed certificate, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._certificate is not None:
                self._certificate.look()
            now_s = self._loop.time()
            for handler in list(self._addresses):
                too_slow = handler.look(now_s)
                if too_slow is not None:
                    self._refusals.cut_off(too_slow)


class Runner(web.AppRunner):
    """Runs an application with limited connections."""

    def __init__(
        self,
        web_app: web.Application,
        refusals: HttpRefusals,
        bounds: ConnectionLimits,
        certificate: Certificate | None = None,
        **options: Any,
    ) -> None:
        """Serve `web_app` within `bounds`; `refusals` answers and counts refused requests."""
        super().__init__(web_app, access_log=None, **(server_options(bounds.header_bytes) | options))
        self._refusals, self._bounds, self._certificate = refusals, bounds, certificate
        self._watching: asyncio.Task[None] | None = None

    __slots__ = ("_bounds", "_certificate", "_refusals", "_watching")

    async def _make_server(self) -> web.Server:
        original = await super()._make_server()
        server = Server(
            self._bounds,
            self._refusals,
            self._certificate,
            original.request_handler,
            request_factory=original.request_factory,
            loop=asyncio.get_running_loop(),
            **original._kwargs,  # noqa: SLF001 - aiohttp creates the server, and has no option for its class
        )
        self._watching = asyncio.get_running_loop().create_task(server.watch())
        self._watching.add_done_callback(telling(end_process))
        return server

    async def cleanup(self) -> None:
        """Answer the requests in progress, and end; slow clients are still cut off."""
        try:
            await super().cleanup()
        finally:
            if self._watching is not None:
                self._watching.cancel()


def _open_files(wanted: int) -> int:
    """Raise the process's limit of open files for `wanted` connections; return the number that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + _OTHER_FILES
    if soft < most:
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < most and soft // 2 < wanted:
        log.warning("this process may open %d files (ulimit -n), so it accepts at most %d connections", soft, soft // 2)
        return soft // 2
    return wanted
