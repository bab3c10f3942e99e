"""A TCP proxy whose faults are set while it runs: the network between a worker and its brokers."""

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, Self

from app.dev.broker.ports import HOST

_CHUNK = 64 * 1024
#: Maximum number of pieces under way in one direction of a connection.
_UNDER_WAY = 64


class Way(Enum):
    """A direction of a connection."""

    THERE = "to the broker"
    BACK = "from the broker"


class _Line:
    """One direction of all connections: what passes is late, slow, or held back."""

    def __init__(self, chooses: random.Random) -> None:
        self._random = chooses
        self.open = asyncio.Event()
        self.open.set()
        self.latency_s = (0.0, 0.0)
        self.bytes_per_s = 0.0
        self._free_at = 0.0

    def arrives_at(self, size: int) -> float:
        """Return when bytes that set out now arrive."""
        now = asyncio.get_running_loop().time()
        if self.bytes_per_s:
            now = self._free_at = max(now, self._free_at) + size / self.bytes_per_s
        return now + self._random.uniform(*self.latency_s)


class Proxy:
    """Forwards what connects to its port to another port, faithfully until a fault is set.

    Everything is undone by `heal`. It ends when its `with` block does.

    Args:
        port: where it listens, on 127.0.0.1.
        target: where it forwards to.
        seed: chooses latencies and the connections to reset.
    """

    def __init__(self, port: int, target: int, seed: int = 1) -> None:
        self.port, self._target = port, target
        self._random = random.Random(seed)  # noqa: S311 - it chooses faults
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()
        self._failed: BaseException | None = None
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._accepts = True
        #: How many connections there have been.
        self.accepted = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of clients."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def delay(self, low_ms: int, high_ms: int) -> None:
        """Delay each piece by a time between `low_ms` and `high_ms`, in order."""

        def set_() -> None:
            for line in self._lines.values():
                line.latency_s = (low_ms / 1000, high_ms / 1000)

        self._call(set_)

    def limit(self, bytes_per_s: int) -> None:
        """Limit all connections together to this bandwidth, in each direction."""

        def set_() -> None:
            for line in self._lines.values():
                line.bytes_per_s = bytes_per_s

        self._call(set_)

    def hold(self, ways: Collection[Way] = tuple(Way)) -> None:
        """Stop the traffic in these directions: connections stay open, new ones too, and the bytes arrive after
        `heal`."""

        def set_() -> None:
            for way in ways:
                self._lines[way].open.clear()

        self._call(set_)

    def reset(self, share: float = 1.0) -> None:
        """Reset this share of the open connections, at both ends (RST)."""

        def set_() -> None:
            for writers in list(self._connections.values()):
                if self._random.random() < share:
                    for writer in writers:
                        _abort(writer)

        self._call(set_)

    def refuse(self) -> None:
        """Reset all connections, and every new one at once."""

        def set_() -> None:
            self._accepts = False

        self._call(set_)
        self.reset()

    def heal(self) -> None:
        """Undo all faults: delayed bytes arrive now."""

        def set_() -> None:
            self._accepts = True
            for line in self._lines.values():
                line.latency_s, line.bytes_per_s = (0.0, 0.0), 0.0
                line.open.set()

        self._call(set_)

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(function)
        self._loop.call_soon_threadsafe(done.set)
        done.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        self._lines = {way: _Line(self._random) for way in Way}
        try:
            server = await asyncio.start_server(self._connected, HOST, self.port)
        except OSError as error:
            self._failed = error
            return
        finally:
            self._started.set()
        await self._over.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a server's callback is a task"
        self.accepted += 1
        writers = self._connections[task] = [writer]
        try:
            if self._accepts:
                far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
                writers.append(far_writer)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(Way.THERE, reader, far_writer))
                    both.create_task(self._pass_on(Way.BACK, far_reader, writer))
        except* (OSError, asyncio.CancelledError):  # reset, the broker is not there, or this is the end
            pass
        finally:
            del self._connections[task]
            for one in writers:
                _abort(one)

    async def _pass_on(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one direction of a connection, up to its end."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)
        arriving = asyncio.ensure_future(self._arrive(way, under_way, writer))
        try:
            while not arriving.done():
                data = await reader.read(_CHUNK)
                await under_way.put((self._lines[way].arrives_at(len(data)), data))
                if not data:
                    break
            await arriving
        finally:
            arriving.cancel()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await arriving

    async def _arrive(
        self, way: Way, under_way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter
    ) -> None:
        while True:
            at, data = await under_way.get()
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            await self._lines[way].open.wait()
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST instead of FIN."""
    transport: Any = writer.transport
    peer = transport.get_extra_info("socket")
    if not transport.is_closing() and peer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
