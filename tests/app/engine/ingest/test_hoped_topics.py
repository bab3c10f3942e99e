"""Topics that no broker knows yet are hoped for: for some seconds, once, and with room for others."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiokafka.errors import KafkaConnectionError

from app.engine.ingest import hoped_topics as module
from app.engine.ingest.admission import Admission
from app.engine.ingest.census import Census
from app.engine.ingest.hoped_topics import HopedTopics
from app.engine.ingest.policy import Policy
from app.settings.settings import Settings
from punctual.contract.headers import REASON
from punctual.contract.record import PlainRecord
from punctual.contract.recurrence import Recurrence
from punctual.contract.request import Request
from tests.app.fake_kafka import ScriptedCluster
from tests.harness.waiting import LIMIT_S
from tests.punctual.contract.records import NOW


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


async def test_brokers_that_do_not_answer_cause_no_refusal() -> None:
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


async def test_messages_of_one_sender_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MESSAGES", 8)
    hopes, nothing = hopes_of(ScriptedCluster()), list[int]().clear
    assert sum(hopes.take("typo", "a", nothing) for _ in range(20)) == 4
    assert sum(hopes.take("typo", "b", nothing) for _ in range(20)) == 2
    await until_over(hopes)
    assert hopes.take("later", "a", nothing)
    await until_over(hopes)


async def test_only_what_can_wait_is_hoped_for() -> None:
    """A series would have one occurrence after the other rejected; a dead letter that is sent again has been denied."""
    cluster = ScriptedCluster(orders=4)
    topics: Any = Settings.from_env({}).topics
    others: Any = None
    admission = Admission(topics, others, others, {}, Census(10, {}, {}, lambda: 0.0))
    policy, absent = Policy(Settings.from_env({}), admission), list[object]()
    policy.absent = lambda *message: absent.append(message)
    plain = Request("schedule", "a", "delay-requests-0-1", NOW, "delay-requests", NOW + 1, "new")
    series = msgspec.structs.replace(plain, id="b", recurrence=Recurrence(60_000, None))
    record, again = record_of(), record_of((REASON, b"unknown-topic"))
    assert not policy.hopes(plain, record, 0), "no topic is expected yet"

    admission.hopes = hopes = hopes_of(cluster)
    assert not policy.hopes(series, record, 0)
    assert not policy.hopes(plain, again, 0)
    assert not policy.hopes(plain, record, 4), "it is there"
    assert policy.hopes(plain, record, 0)
    await until_over(hopes)
    assert absent == [("a", "delay-requests-0-1", "new")]


def record_of(*headers: tuple[str, bytes | None]) -> PlainRecord:
    return PlainRecord("delay-requests", 0, 1, NOW, None, b"", [*headers])
