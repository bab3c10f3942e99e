"""Topics that no broker knows yet are hoped for: for some seconds, once, and with room for others."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from app.engine.ingest import hoped_topics as module
from app.engine.ingest.hoped_topics import HopedTopics
from tests.app.fake_kafka import ScriptedCluster
from tests.harness.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HOPE_S", 0.1)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)


def hopes_of(cluster: ScriptedCluster) -> HopedTopics:
    return HopedTopics(cluster)  # type: ignore[arg-type]


async def until_over(hopes: HopedTopics) -> None:
    assert hopes._looking is not None
    await asyncio.wait_for(hopes._looking, LIMIT_S)


async def test_a_topic_that_comes_in_time_takes_all_that_hoped_for_it() -> None:
    cluster, absent = ScriptedCluster(), list[int]()
    hopes = hopes_of(cluster)
    assert all(hopes.take("new", "a", lambda: absent.append(1)) for _ in range(400))
    asyncio.get_running_loop().call_later(0.03, cluster.topics.update, {"new": 4})
    await until_over(hopes)
    assert (absent, len(hopes._message_places), len(hopes._name_places)) == ([], 0, 0)


async def test_a_name_that_stays_unknown_is_hoped_for_once() -> None:
    hopes, absent = hopes_of(ScriptedCluster()), list[int]()
    assert all(hopes.take("typo", "a", lambda number=number: absent.append(number)) for number in range(3))  # type: ignore[misc]
    await until_over(hopes)
    assert absent == [0, 1, 2]
    assert not hopes.take("typo", "a", absent.clear)


async def test_brokers_that_do_not_answer_deny_nothing() -> None:
    cluster, absent = ScriptedCluster(), list[int]()
    cluster.away = ConnectionError()
    hopes: Any = hopes_of(cluster)
    refresh = cluster.refresh

    async def away(topics: Any) -> set[str]:
        try:
            return await refresh(topics)
        except ConnectionError as error:
            raise KafkaConnectionError from error

    cluster.refresh = away  # type: ignore[method-assign]
    assert hopes.take("new", "a", lambda: absent.append(1))
    await asyncio.sleep(0.3)
    assert not absent
    cluster.away, cluster.topics["new"] = None, 1
    await until_over(hopes)
    assert not absent


async def test_made_up_names_of_one_sender_leave_room_for_those_of_others() -> None:
    hopes = hopes_of(ScriptedCluster())
    nothing = list[int]().clear
    assert sum(hopes.take(f"t{number}", "a", nothing) for number in range(10_000)) == 100
    assert hopes.take("t0", "a", nothing)
    assert sum(hopes.take(f"b{number}", "b", nothing) for number in range(10_000)) == 50
    assert not hopes.take("one more", "a", nothing)
    await until_over(hopes)
    assert hopes.take("later", "a", nothing)
    await until_over(hopes)
