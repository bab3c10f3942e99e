"""The connections of a cluster record lost leaders."""

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any

from aiokafka.errors import KafkaConnectionError

from app.kafka.metadata import cluster as module
from app.kafka.metadata.cluster import Cluster
from tests.harness.waiting import LIMIT_S


class Led(Cluster):
    """A cluster whose answers say who leads the partitions of one topic; None is no answer."""

    def __init__(self, *answers: list[int] | None) -> None:
        super().__init__("nowhere")
        self._answers = deque(answers)
        self.asked = 0

    async def ask(self, _: Any) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        leaders = self._answers.popleft()
        if leaders is None:
            raise KafkaConnectionError
        return SimpleNamespace(topics=[(0, "orders", False, [(0, n, one, [], []) for n, one in enumerate(leaders)])])

    def lost(self, partitions: int) -> list[int]:
        return [self.losses(("orders", number)) for number in range(partitions)]


async def test_a_lost_broker_led_the_partitions_of_its_last_metadata() -> None:
    cluster = Led([1, 2, 1])
    await cluster.refresh(["orders"])
    cluster.lose(1)

    assert cluster.lost(3) == [1, 0, 1]


async def test_a_partition_with_another_leader_or_none_may_have_lost_one() -> None:
    cluster = Led([1, 2, 3], [2, -1, 3], [2, 3, 3])
    await cluster.refresh(["orders"])
    await cluster.refresh(["orders"])
    assert cluster.lost(3) == [1, 1, 0]
    await cluster.refresh(["orders"])  # it has one again
    assert cluster.lost(3) == [1, 1, 0]


async def test_after_a_loss_the_leaders_are_looked_up_again(monkeypatch: Any) -> None:
    """A broker that is lost may have led more than was known: leaders move without a word."""
    monkeypatch.setattr(module, "_AGAIN_S", 0.0)
    cluster = Led([1, 2], None, [1, 3])
    await cluster.refresh(["orders"])
    await cluster.look_for_losses()
    assert cluster.asked == 1, "nothing was lost"

    cluster.lose(3)  # which has taken over the second without a word
    assert cluster.lost(2) == [0, 0]
    await cluster.look_for_losses()
    assert cluster.lost(2) == [0, 1]
    assert cluster.asked == 3
    await cluster.look_for_losses()
    assert cluster.asked == 3


async def test_who_was_cancelled_while_it_asked_has_not_asked() -> None:
    cluster = Led([1, 2], [1, 3])
    await cluster.refresh(["orders"])
    cluster.lose(3)
    asking = asyncio.create_task(cluster.look_for_losses())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await cluster.look_for_losses()

    assert cluster.lost(2) == [0, 1]


async def test_a_broker_that_was_lost_is_asked_last() -> None:
    asked: list[int] = []

    async def send(node: int, _: Any) -> str:
        asked.append(node)
        if node != 3:
            raise KafkaConnectionError
        return "said"

    cluster: Any = Cluster("nowhere")
    brokers = [SimpleNamespace(nodeId=node) for node in (1, 2, 3)]
    cluster._client = SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: brokers), send=send)
    for _ in range(10):
        cluster.lose(3)
        asked.clear()
        assert await cluster.ask("who leads what?") == "said"
        assert asked[-1] == 3
        assert sorted(asked) == [1, 2, 3]


async def test_a_broker_that_does_not_answer_holds_up_no_connection_to_another(monkeypatch: Any) -> None:
    asked = []

    async def connect(host: str, _port: int, **_: Any) -> Any:
        asked.append(host)
        if host == "dead":
            await asyncio.Event().wait()
        return SimpleNamespace(connected=lambda: True, close=lambda **_: asyncio.sleep(0))

    monkeypatch.setattr("aiokafka.client.create_conn", connect)
    client = module._Client(lambda _: None, bootstrap_servers="nowhere")
    monkeypatch.setattr(
        client.cluster, "broker_metadata", lambda node: SimpleNamespace(host=("dead", "alive")[node], port=1)
    )
    waiting = [asyncio.create_task(client.ready(0, group=group)) for group in ("a", "b", "b")]
    await asyncio.sleep(0)
    async with asyncio.timeout(LIMIT_S):
        assert await client.ready(1)
    assert asked == ["dead", "dead", "alive"], "one at a time of a kind"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
