"""The topics that there must be."""

import asyncio
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from app.base.errors import TopicMismatch
from app.engine.topics import creation
from app.engine.topics.creation import ensure, ensure_receipts, partitions_by_topic
from app.engine.topics.internal_topics import plan
from app.settings.settings import Settings


class Brokers:
    """Brokers that answer in turn, each with the topics that it knows; the first one knows created topics."""

    def __init__(self, *known: set[str], read: int = 0) -> None:
        self._first, self._turn = known[0], itertools.cycle(known)
        #: Up to where the group has read the requests.
        self._read = read

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

    async def describe_cluster(self) -> dict[str, str]:
        return {"cluster_id": "c-1"}

    async def list_consumer_group_offsets(self, _: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return {TopicPartition("delay-requests", 0): OffsetAndMetadata(self._read, "")} if self._read else {}


def refusal(monkeypatch: pytest.MonkeyPatch, brokers: Brokers, **env: str) -> str:
    """Return why a worker does not start."""
    monkeypatch.setattr(creation, "AIOKafkaAdminClient", lambda **_: brokers)
    with pytest.raises(TopicMismatch) as refused:
        asyncio.run(ensure(Settings.from_env(env)))
    return str(refused.value)


def test_a_broker_that_does_not_know_a_new_topic_yet_does_not_say_how_many_partitions_it_has() -> None:
    assert asyncio.run(partitions_by_topic(Brokers({"new"}, set()))) == {"new": 4}


def test_a_topic_that_is_created_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(set(), set())
    monkeypatch.setattr(creation, "AIOKafkaAdminClient", lambda **_: brokers)

    assert asyncio.run(ensure_receipts(Settings.from_env({}).kafka, Settings.from_env({}).topics)) == 4


def test_there_need_be_no_cold_topic() -> None:
    assert "delay-cold" not in plan(Settings.from_env({}).topics)
    assert "delay-cold" in plan(Settings.from_env({}).topics, cold=True)


def test_a_held_message_can_be_parked_because_the_topic_accepts_its_size() -> None:
    topics = plan(Settings.from_env({}).topics, 5_000_000, cold=True)

    assert topics["delay-cold"][0] == topics["delay-delays-changelog"][0]
    assert topics["delay-cold"][1]["max.message.bytes"] == topics["delay-delays-changelog"][1]["max.message.bytes"]


def test_no_empty_changelog_is_created_next_to_one_for_another_number_of_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = refusal(monkeypatch, Brokers({"delay-requests", "delay-p24-delays-changelog"}))
    assert "topic delay-delays-changelog does not exist" in said
    assert "delay-p24-delays-changelog" in said


def test_no_empty_changelog_is_made_where_there_are_databases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = Settings.from_env({"DATADIR": str(tmp_path)}).data_path
    (data / "tables" / "delays-0.db").mkdir(parents=True)
    (data / "installation").write_text("delay on cluster c-1\n", "utf-8")

    said = refusal(monkeypatch, Brokers({"delay-requests"}), DATADIR=str(tmp_path))
    assert "is missing, although this installation has processed messages before" in said
    assert "DELAY_ACCEPT_LOSS=recreated:delay-delays-changelog" in said


def test_no_empty_changelog_is_made_where_the_group_has_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = refusal(monkeypatch, Brokers({"delay-requests"}, read=7), DATADIR=str(tmp_path))
    assert "is missing, although this installation has processed messages before" in said
