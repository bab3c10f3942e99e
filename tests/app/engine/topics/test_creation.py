"""The topics that there must be."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from app.engine.topics import creation
from app.engine.topics.creation import ensure_receipts, partitions_by_topic
from app.engine.topics.internal_topics import plan
from app.settings.settings import Settings


class Brokers:
    """Brokers that answer in turn, each by the topics that it knows; what is created, the first one knows."""

    def __init__(self, *known: set[str]) -> None:
        self._first, self._turn = known[0], itertools.cycle(known)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def create_topics(self, new: list[Any]) -> SimpleNamespace:
        self._first.update(topic.name for topic in new)
        return SimpleNamespace(topic_errors=[(topic.name, 0, None) for topic in new])

    async def describe_topics(self, names: list[str] | None = None) -> list[dict[str, Any]]:
        known = next(self._turn)
        asked = known if names is None else names
        return [{"topic": name, "partitions": [{}] * 4 if name in known else []} for name in asked]

    async def list_topics(self) -> list[str]:
        return sorted(next(self._turn))


def test_a_broker_that_does_not_know_a_new_topic_yet_does_not_say_how_many_partitions_it_has() -> None:
    assert asyncio.run(partitions_by_topic(Brokers({"new"}, set()))) == {"new": 4}


def test_a_topic_that_is_created_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(set(), set())
    monkeypatch.setattr(creation, "AIOKafkaAdminClient", lambda **_: brokers)

    assert asyncio.run(ensure_receipts(Settings.from_env({}).kafka, Settings.from_env({}).topics)) == 4


def test_there_need_be_no_cold_topic() -> None:
    assert "delay-cold" not in plan(Settings.from_env({}).topics)
    assert "delay-cold" in plan(Settings.from_env({}).topics, cold=True)


def test_what_is_held_is_parked_and_the_topic_takes_it() -> None:
    topics = plan(Settings.from_env({}).topics, 5_000_000, cold=True)

    assert topics["delay-cold"][0] == topics["delay-delays-changelog"][0]
    assert topics["delay-cold"][1]["max.message.bytes"] == topics["delay-delays-changelog"][1]["max.message.bytes"]
