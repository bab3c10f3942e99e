"""A server limits its connections, in all and for each address, and ends slow connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from app.base.listening import connections, limits
from app.base.listening.connections import ConnectionLimits, Runner
from app.base.listening.limits import HttpRefusal
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S

Served = Callable[..., Awaitable[Runner]]
Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]
IDLE, BUSY = (b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in (b"/nowhere", b"/endless"))


class CutOff:
    """Counts connections that a server ends."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def error(self, refusal: HttpRefusal) -> Exception:
        return web.HTTPBadRequest(text=refusal.sentence)

    def answer(self, refusal: HttpRefusal) -> web.Response:
        return web.Response(status=refusal.status)

    def cut_off(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def cut_off() -> CutOff:
    return CutOff()


@pytest.fixture
async def served(cut_off: CutOff) -> AsyncIterator[Served]:
    """Serve within bounds on a port of this machine."""
    runners = []

    async def start(*, newest_in: bool = False, most: int = 100, most_of_one: int = 100) -> Runner:
        async def endless(request: web.Request) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            while True:
                await answer.write(bytes(1 << 16))

        web_app = web.Application()
        web_app.add_routes([web.get("/endless", endless)])
        runner = Runner(web_app, cut_off, ConnectionLimits(most, most_of_one, 8_190, newest_in))
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", free_port()).start()
        return runner

    yield start
    for runner in runners:
        await runner.cleanup()


async def connected(runner: Runner, said: bytes) -> Connected:
    """Connect, and wait until an answer begins or the server ends it."""
    reader, writer = await asyncio.open_connection(*runner.addresses[0])
    writer.write(said)
    with contextlib.suppress(ConnectionError):
        await reader.read(1)
    return reader, writer


async def has_ended(connection: Connected) -> bool:
    """Wait until a server has ended a connection."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(LIMIT_S):
            while await connection[0].read(1 << 20):
                pass
    return True


@pytest.mark.parametrize(("bound", "reason"), [("most", "many"), ("most_of_one", "address")])
@pytest.mark.parametrize(
    ("said", "newest_in", "ends"),
    [(IDLE, False, 0), (BUSY, False, 2), (BUSY, True, 0)],
    ids=["the idle one makes room", "all are busy", "the newest is let in"],
)
async def test_a_connection_too_many_makes_room_or_is_not_taken(
    bound: str,
    reason: str,
    said: bytes,
    newest_in: bool,  # noqa: FBT001 - pytest's
    ends: int,
    served: Served,
    cut_off: CutOff,
) -> None:
    runner = await served(newest_in=newest_in, **{bound: 2})
    opened = [await connected(runner, said) for _ in range(3)]

    assert cut_off.reasons == [reason]
    assert await has_ended(opened[ends])
    assert runner.server is not None
    assert len(runner.server.connections) == 2
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize(("bound", "said"), [("HEAD_S", b"GET / HTTP/1.1\r\nX: "), ("ANSWER_S", BUSY)])
async def test_a_client_that_sends_a_head_or_reads_an_answer_too_slowly_is_disconnected(
    bound: str, said: bytes, served: Served, cut_off: CutOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, bound, 0.1)
    monkeypatch.setattr(connections, "_LOOK_S", 0.01)
    runner = await served()
    reader, writer = await asyncio.open_connection(*runner.addresses[0])
    writer.write(said)

    async with asyncio.timeout(LIMIT_S):
        while not cut_off.reasons:  # noqa: ASYNC110 - the server checks at intervals
            await asyncio.sleep(0.01)
        if bound == "HEAD_S":
            assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert cut_off.reasons == [bound.removesuffix("_S").lower()]
    writer.close()
