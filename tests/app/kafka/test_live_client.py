"""A client does not wait for a silent broker once the cluster no longer lists it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import aiokafka.errors as kafka
import pytest
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.metadata import MetadataRequest

from app.kafka.wire import live_client
from app.kafka.wire.connection import QuickConnection
from app.kafka.wire.live_client import LiveClient, first_answer

HANGS = 60.0


class Answering(QuickConnection):
    """A connection to a broker that answers at once, or never."""

    def __init__(self, client: "Scripted", node: int) -> None:
        super().__init__(f"broker-{node}", 9092, on_close=client._on_connection_closed)
        self._client_of, self._node = client, node
        self._reader = self._writer = SimpleNamespace(close=lambda: None, at_eof=lambda: False)
        self._read_task: Any = asyncio.get_running_loop().create_future()
        self._read_task.set_result(None)
        self._closed_fut = self._read_task

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: FBT001, FBT002, ARG002 - aiokafka's
        answer = self._loop.create_future()
        self._requests.append((0, None, answer))
        self._limit(answer)
        if self._node not in self._client_of.silent:
            answer.set_result(self._client_of.answer(request))
        return answer


class Scripted(LiveClient):
    """A client of three brokers, some of which are silent; broker 1 is `unlisted` when the test says so."""

    def __init__(self, *silent: int) -> None:
        super().__init__(bootstrap_servers="nowhere")
        self.silent, self.listed = set(silent), [1, 2, 3]
        self.opened: list[int] = []
        self.cluster.update_metadata(self.answer(MetadataRequest([])))

    def answer(self, request: Any) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(error_code=0, coordinator_id=2)
        brokers = [(node, f"broker-{node}", 9092, None) for node in self.listed]
        return SimpleNamespace(API_VERSION=1, brokers=brokers, controller_id=1, topics=[], cluster_id="", error_code=0)

    def connect(self, node: int) -> Answering:
        made = self._conns[node, ConnectionGroup.DEFAULT] = Answering(self, node)
        return made


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all waits for brokers."""
    monkeypatch.setattr(live_client, "PATIENCE_S", 0.01)
    monkeypatch.setattr(live_client, "LATE_S", 0.02)
    monkeypatch.setattr(live_client, "_LOOK_S", 0.01)


async def silent() -> str:
    await asyncio.sleep(HANGS)
    return "late"


async def failing() -> str:
    raise kafka.NodeNotReadyError


async def answering() -> str:
    return "answer"


@pytest.mark.parametrize("before", [[silent], [failing], [silent, failing, silent], []])
async def test_the_first_answer_counts_whoever_is_silent_or_fails(before: list[Any]) -> None:
    async with asyncio.timeout(HANGS / 2):
        assert await first_answer([*before, answering], 0.01) == "answer"


async def test_a_question_that_all_brokers_fail_to_answer_fails_like_the_last_one() -> None:
    with pytest.raises(kafka.NodeNotReadyError):
        await first_answer([failing, failing], 0.01)
    with pytest.raises(kafka.KafkaConnectionError, match="the client knows no broker"):
        await first_answer([], 0.01)


async def test_metadata_and_coordinators_come_from_brokers_that_answer() -> None:
    client = Scripted(1, 2)
    for node in (1, 2, 3):
        client.connect(node)
    async with asyncio.timeout(HANGS / 2):
        assert await client._metadata_update(client.cluster, {"orders"})
        assert await client.coordinator_lookup(CoordinationType.GROUP, "orders") == 2
    await client.close()


async def test_requests_to_a_broker_fail_when_the_cluster_no_longer_lists_it() -> None:
    client = Scripted(1)
    for node in (1, 2, 3):
        client.connect(node)
    client._sync_task = asyncio.create_task(client._md_synchronizer())
    client._watching = asyncio.create_task(client._watch())
    waiting = asyncio.create_task(client.send(1, MetadataRequest([])))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "a broker that is listed may answer yet"

    client.listed = [2, 3]

    async with asyncio.timeout(HANGS / 2):
        with pytest.raises(kafka.KafkaConnectionError):
            await waiting
        with pytest.raises(kafka.NodeNotReadyError):
            await client.send(1, MetadataRequest([]))
    await client.close()


async def test_a_connection_that_does_not_open_is_not_waited_for_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(HANGS)

    monkeypatch.setattr("aiokafka.client.create_conn", connect)
    client = Scripted()
    for node in (2, 3):
        client.connect(node)
    client._sync_task = asyncio.create_task(client._md_synchronizer())
    client._watching = asyncio.create_task(client._watch())
    waiting = [asyncio.create_task(client.ready(1)) for _ in range(2)]
    await asyncio.sleep(0)
    client.listed = [2, 3]

    async with asyncio.timeout(HANGS / 2):
        assert await asyncio.gather(*waiting) == [False, False]
    await client.close()


async def test_a_connection_that_does_not_open_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Scripted()

    async def connect(host: str, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(HANGS if host == "broker-1" else 0)
        return Answering(client, 2)

    monkeypatch.setattr("aiokafka.client.create_conn", connect)
    waiting = asyncio.create_task(client.ready(1))
    await asyncio.sleep(0.01)
    async with asyncio.timeout(HANGS / 2):
        assert await client.ready(2)
    assert not waiting.done()
    waiting.cancel()
    await client.close()
