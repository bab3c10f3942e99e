"""Clients that send a lot do not hold up the other work of a server, because the event loop reads little at a time."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import StreamReader, web

from app.base.listening import limits, turns
from app.base.listening.bodies import read_body
from app.base.listening.protocol import ClientConnection
from app.base.listening.turns import Turns
from tests.app.base.listening.conftest import answer_to, server
from tests.harness.waiting import LIMIT_S, until

MIB = 1 << 20
#: The maximum bytes that asyncio reads at once; uvloop reads fewer.
READ_BYTES = 256 << 10
CHUNKS = b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n"
UNKNOWN = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes in each piece that a connection receives."""
    sizes, receive = list[int](), ClientConnection.data_received

    def data_received(connection: ClientConnection, data: bytes) -> None:
        sizes.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(ClientConnection, "data_received", data_received)
    return sizes


@pytest.fixture
async def reading_port() -> AsyncIterator[int]:
    """The port of a server that reads all of a body."""

    async def read(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await read_body(request))))

    web_app = web.Application(client_max_size=16 * MIB)
    web_app.add_routes([web.post("/", read)])
    made, port = server(web_app)
    await made.start()
    yield port
    await made.stop()


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 100000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5f5e100\r\n"]
)
async def test_of_a_large_refused_body_little_is_received(
    port: int, received: list[int], framing: bytes, request: pytest.FixtureRequest
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UNKNOWN + framing + bytes(1_000))
    async with asyncio.timeout(LIMIT_S):
        answer = await reader.readuntil(b"\r\n\r\n")
    # The front passes on the head of a worker's answer.
    assert b"\r\nConnection: close\r\n" in answer or request.node.callspec.params["port"] == "front"

    received.clear()
    began_s = time.monotonic()
    writer.write(bytes(50 * MIB))
    await asyncio.sleep(0.5)
    pauses = (time.monotonic() - began_s) / limits.DROP_S
    assert 0 < len(received) <= pauses + 2
    assert sum(received) <= (pauses + 2) * READ_BYTES
    writer.transport.abort()


async def test_the_connection_stays_open_after_a_small_refused_body(port: int) -> None:
    first = UNKNOWN + b"Content-Length: 10000\r\n\r\n"
    following = UNKNOWN + b"Connection: close\r\nContent-Length: 0\r\n\r\n"

    answers = await answer_to(port, first, bytes(10_000), following, leaves=False)

    assert answers.count(b"HTTP/1.1 404 ") == 2


async def test_an_error_quotes_few_of_the_bytes_that_are_not_http(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, handle = list[str](), ClientConnection.handle_error

    def handle_error(connection: ClientConnection, *arguments: Any, **options: Any) -> web.StreamResponse:
        texts.append(str(arguments[2] if len(arguments) > 2 else options["exc"]))
        return handle(connection, *arguments, **options)

    monkeypatch.setattr(ClientConnection, "handle_error", handle_error)
    with contextlib.suppress(ConnectionError):  # the server closes the connection without reading all bytes
        await answer_to(port, b"\x16\x03\x01" + bytes(MIB), leaves=False)

    assert max(map(len, texts)) < 8 * limits.PIECE_BYTES


@pytest.fixture
async def chunks_by_turn(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Counter[int]]:
    """How many chunks of bodies are parsed in each turn of the event loop."""
    counts, turn, parse = Counter[int](), 0, StreamReader.end_http_chunk_receiving

    def end_http_chunk_receiving(stream: StreamReader) -> None:
        counts[turn] += 1
        parse(stream)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(StreamReader, "end_http_chunk_receiving", end_http_chunk_receiving)
    counting = asyncio.create_task(count_turns())
    yield counts
    counting.cancel()


async def test_few_chunks_of_a_body_are_parsed_in_a_turn(reading_port: int, chunks_by_turn: Counter[int]) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"

    answer = await answer_to(reading_port, head + CHUNKS, leaves=False)

    assert answer.endswith(b"\r\n\r\n40000")
    assert chunks_by_turn.total() >= 40_000
    assert max(chunks_by_turn.values()) <= 1_000


async def test_chunks_that_come_after_the_answer_are_not_parsed(port: int, chunks_by_turn: Counter[int]) -> None:
    await answer_to(port, UNKNOWN + b"Transfer-Encoding: chunked\r\n\r\n", CHUNKS)

    assert chunks_by_turn.total() <= 4_000


async def test_large_bodies_take_turns(reading_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_S", 0.05)
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (8 * MIB)

    began_s = time.monotonic()
    answers = await asyncio.gather(*(answer_to(reading_port, head + bytes(8 * MIB), leaves=False) for _ in range(3)))

    assert all(answer.endswith(b"\r\n\r\n8388608") for answer in answers)
    reads = 3 * (8 * MIB // READ_BYTES - limits.QUICK_READS - 2)
    assert time.monotonic() - began_s >= 0.05 * reads


async def test_turns_are_in_order_and_an_error_in_one_does_not_end_the_others() -> None:
    loop = asyncio.get_running_loop()
    queue, ran, errors = Turns(loop), list[tuple[int, float]](), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _loop, context: errors.append(context))

    def callback(number: int) -> Callable[[], None]:
        def run() -> None:
            ran.append((number, loop.time()))
            if number == 1:
                raise ValueError

        return run

    for number in range(4):
        queue.add(callback(number))
    await until(lambda: len(ran) == 4)
    queue.add(callback(4))
    await until(lambda: len(ran) == 5)

    assert [number for number, _ in ran] == [0, 1, 2, 3, 4]
    moments = [moment for _, moment in ran]
    assert all(after - before >= turns.PAUSE_S for before, after in itertools.pairwise(moments))
    assert len(errors) == 1
