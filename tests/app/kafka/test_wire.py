"""Frames that are packed by hand have the same bytes as aiokafka's, and so have connections."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import aiokafka.errors as kafka
import pytest
import uvloop
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest
from hypothesis import given
from hypothesis import strategies as st

from app.kafka.wire.connection import QuickConnection
from app.kafka.wire.fetch import FETCH
from app.kafka.wire.produce import PRODUCE
from app.kafka.wire.transactions import ADD, END
from tests.harness.waiting import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.kafka.wire.codec import Codec

names = st.text(max_size=20)
ids = st.one_of(st.none(), names)
int16, int32, int64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))


def topics(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(names, st.lists(of, max_size=3)), max_size=3)


requests = st.one_of(
    st.builds(ProduceRequest, ids, int16, int32, topics(st.tuples(int32, st.binary(max_size=50)))),
    st.builds(
        FetchRequest, int32, int32, int32, st.integers(0, 1), topics(st.tuples(int32, int64, int32)), rack_id=names
    ),
    st.builds(AddPartitionsToTxnRequest, names, int64, int16, topics(int32)),
    st.builds(EndTxnRequest, names, int64, int16, st.booleans()),
)
CODECS: "dict[type, Codec]" = {
    ProduceRequest: PRODUCE,
    FetchRequest: FETCH,
    AddPartitionsToTxnRequest: ADD,
    EndTxnRequest: END,
}


def theirs(kind: type) -> Any:
    """Return aiokafka's own class for the version that is packed by hand."""
    codec = CODECS[kind]
    return next(one for one in kind._CLASSES if codec.version == one.API_VERSION)  # type: ignore[attr-defined]


@given(requests)
def test_a_request_is_packed_as_aiokafka_packs_it(request: Any) -> None:
    codec = CODECS[type(request)]
    assert b"".join(codec.pack(request)) == request.build(theirs(type(request))).encode()


taken = st.tuples(int32, int16, int64, int64, int64)
aborted = st.one_of(st.none(), st.lists(st.tuples(int64, int64), max_size=3))
records = st.one_of(st.none(), st.binary(max_size=50))
found = st.tuples(int32, int16, int64, int64, int64, aborted, int32, records)
answers = st.one_of(
    st.tuples(st.just(ProduceRequest), st.tuples(topics(taken), int32)),
    st.tuples(st.just(FetchRequest), st.tuples(int32, int16, int32, topics(found))),
    st.tuples(st.just(AddPartitionsToTxnRequest), st.tuples(int32, topics(st.tuples(int32, int16)))),
    st.tuples(st.just(EndTxnRequest), st.tuples(int32, int16)),
)


@given(answers, int32)
def test_an_answer_says_what_aiokafka_reads_in_it(answer: tuple[Any, tuple[Any, ...]], number: int) -> None:
    kind, said_of_it = answer
    made = theirs(kind).RESPONSE_TYPE(*said_of_it)
    said = CODECS[kind].unpack(struct.pack(">i", number) + made.encode())

    for field in fields(said):
        assert getattr(said, field.name) == getattr(made, field.name)
    assert said.API_VERSION == made.API_VERSION


# connections ---------------------------------------------------------------------------------------------------------
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
VERSIONS = [(0, 3, 9), (3, 0, 1), (18, 0, 0), (26, 0, 1)]
PRODUCED = struct.pack(">ih1siihqqqi", 1, 1, b"t", 1, 7, 0, 40, 50, 60, 0)


async def read(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Return the kind of the next request, and its number."""
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    kind, _, number = struct.unpack_from(">hhi", await reader.readexactly(length))
    return kind, number


def framed(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, number) + body


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say which versions there are."""
    kind, number = await read(reader)
    assert kind == ApiVersionRequest.API_KEY
    versions = b"".join(struct.pack(">hhh", *one) for one in VERSIONS)
    writer.write(framed(number, struct.pack(">hi", 0, len(VERSIONS)) + versions))


@asynccontextmanager
async def connected(serve: Serve, timeout_ms: int = 5_000) -> "AsyncIterator[QuickConnection]":
    """Connect to a broker that greets, then does as `serve` says."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await greet(reader, writer)
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    connection = QuickConnection("127.0.0.1", server.sockets[0].getsockname()[1], request_timeout_ms=timeout_ms)
    try:
        await connection.connect()
        yield connection
    finally:
        connection.close()
        server.close()


def produce() -> ProduceRequest:
    return ProduceRequest(None, -1, 1_000, [("t", [(7, b"batch")])])


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    def run(work: Any) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(work, LIMIT_S))

    return run


def test_answers_come_in_order_however_they_are_cut(run: Callable[[Any], None]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        numbers = [await read(reader) for _ in range(3)]
        raw = b"".join(
            framed(number, PRODUCED if kind == 0 else struct.pack(">ih", 0, 51 if kind == 26 else 0))
            for kind, number in numbers
        )
        for begin in range(0, len(raw), 5):
            writer.write(raw[begin : begin + 5])
            await writer.drain()
            await asyncio.sleep(0.001)
        await reader.read()

    async def work() -> None:
        async with connected(serve) as connection:
            sent = [connection.send(one) for one in (produce(), EndTxnRequest("id", 1, 2, True), produce())]  # noqa: FBT003 - theirs
            first, ended, last = await asyncio.gather(*sent)
        assert first.topics == last.topics == [("t", [(7, 0, 40, 50, 60)])]
        assert ended.error_code == 51

    run(work())


def test_requests_that_are_not_packed_by_hand_are_sent_by_aiokafka(run: Callable[[Any], None]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, number = await read(reader)
        writer.write(framed(number, struct.pack(">iii", 0, 0, 0)))
        await reader.read()

    async def work() -> None:
        async with connected(serve) as connection:
            assert (await connection.send(MetadataRequest([]))).topics == []

    run(work())


def test_a_late_answer_ends_the_connection(run: Callable[[Any], None]) -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def work() -> None:
        async with connected(serve, timeout_ms=1_000) as connection:
            first = connection.send(produce())
            await asyncio.sleep(0.05)
            second = connection.send(produce())
            with pytest.raises(kafka.RequestTimedOutError):
                await first
            with pytest.raises(kafka.KafkaConnectionError):
                await second
            assert not connection.connected()

    run(work())


@pytest.mark.parametrize("what", ["end", "another number", "nonsense", "not asked for"])
def test_a_connection_that_is_of_no_use_fails_all_that_is_under_way(run: Callable[[Any], None], what: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, number = await read(reader)
        await read(reader)
        if what == "another number":
            writer.write(framed(number + 9, PRODUCED))
        elif what == "nonsense":
            writer.write(framed(number, PRODUCED[:9]))
        elif what == "not asked for":
            writer.write(framed(number, PRODUCED) + framed(number + 1, PRODUCED) + framed(number + 2, PRODUCED))
        if what != "end":
            await reader.read()

    async def work() -> None:
        async with connected(serve) as connection:
            found = await asyncio.gather(*(connection.send(produce()) for _ in range(2)), return_exceptions=True)
            await until(lambda: not connection.connected())
            if what != "not asked for":
                assert all(isinstance(one, kafka.KafkaError) for one in found)
            with pytest.raises(kafka.KafkaConnectionError):
                connection.send(produce())

    run(work())


def test_an_answer_without_a_caller_is_skipped(run: Callable[[Any], None]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            _, number = await read(reader)
            writer.write(framed(number, PRODUCED))
        await reader.read()

    async def work() -> None:
        async with connected(serve) as connection:
            given_up = connection.send(produce())
            given_up.cancel()
            assert (await connection.send(produce())).topics

    run(work())
