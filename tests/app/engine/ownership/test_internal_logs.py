"""An installation's own topics while a worker runs: it exits if one is missing, re-created or larger."""

import asyncio
import logging
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.base.errors import LogChanged
from app.engine.ownership import internal_logs
from app.engine.ownership.internal_logs import InternalLogs
from app.engine.topics import creation
from app.kafka.metadata.topic_ids import TopicId
from app.settings.settings import Settings
from tables.followed import UNFINISHED, WHOLE, head_at
from tests.harness.waiting import LIMIT_S

SETTINGS = Settings.from_env({"DELAY_PARTITIONS": "4"})
Topics = dict[str, TopicId]


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Topics:
    """The topics that there are."""
    found = {topic: TopicId("1", 4) for topic in SETTINGS.topics.internal_topics}

    async def ids(_: Any, asked: Collection[str]) -> Topics:
        return {topic: found[topic] for topic in asked if topic in found}

    monkeypatch.setattr(internal_logs, "topic_ids", ids)
    return found


@pytest.fixture
def logs() -> InternalLogs:
    """What looks at them."""
    made: Any = InternalLogs
    looking: InternalLogs = made(SETTINGS.topics, SETTINGS.engine, None, cold=True)
    return looking


@pytest.mark.parametrize("topic", ["changelog", "controls", "progress", "events_topic", "dead_letters", "cold"])
async def test_a_topic_that_two_looks_do_not_find_is_deleted(topic: str, there: Topics, logs: InternalLogs) -> None:
    name = getattr(SETTINGS.topics, topic)
    await logs.look()
    kept = there.pop(name)
    await logs.look()
    there[name] = kept
    await logs.look()
    del there[name]
    await logs.look()
    with pytest.raises(LogChanged, match=f"^{name}: deleted while this worker was using it"):
        await logs.look()


async def test_another_topic_of_the_same_name_is_not_taken_for_the_old_one(there: Topics, logs: InternalLogs) -> None:
    await logs.look()
    there[SETTINGS.topics.changelog] = TopicId("2", 4)
    with pytest.raises(LogChanged, match=f"^{SETTINGS.topics.changelog}: deleted and created again"):
        await logs.look()


@pytest.mark.parametrize("topic", ["requests", "forwards", "changelog"])
async def test_a_topic_with_more_partitions_is_noticed(topic: str, there: Topics, logs: InternalLogs) -> None:
    there[getattr(SETTINGS.topics, topic)] = TopicId("1", 5)
    with pytest.raises(LogChanged, match="now has 5 partitions; it had 4 when this worker started"):
        await logs.look()


def headless(lost: str) -> type:
    """Return readers by which a topic has lost the records before offset 7, and no other one any."""

    class Reader:
        def __init__(self, _: Any, topic: str, __: int) -> None:
            self._begin = 7 if topic == lost else 0

        async def begin(self) -> int:
            return self._begin

    return Reader


async def test_a_changelog_that_loses_its_head_under_a_worker_is_an_error(
    logs: InternalLogs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(internal_logs, "PartitionReader", headless(SETTINGS.topics.changelog))
    heads = {0: None, 1: head_at(7, WHOLE), 2: head_at(7, UNFINISHED)}
    stores: Any = {number: SimpleNamespace(head=head) for number, head in heads.items()}
    with caplog.at_level(logging.ERROR):
        await logs.look_at_heads(stores)
    assert [record.getMessage().partition(" begins")[0] for record in caplog.records] == [
        f"{SETTINGS.topics.changelog}-0",
        f"{SETTINGS.topics.changelog}-2",
    ]


@pytest.mark.parametrize("accepted", ["", SETTINGS.topics.controls])
async def test_controls_that_lose_their_head_under_a_worker_are_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, accepted: str
) -> None:
    monkeypatch.setattr(internal_logs, "PartitionReader", headless(SETTINGS.topics.controls))
    logs = InternalLogs(
        Settings.from_env({"DELAY_ACCEPT_LOSS": accepted}).topics,
        Settings.from_env({"DELAY_ACCEPT_LOSS": accepted}).engine,
        cast("Any", None),
    )
    with caplog.at_level(logging.ERROR):
        await logs.look_at_heads({})
    assert [f"DELAY_ACCEPT_LOSS={SETTINGS.topics.controls}" in one.getMessage() for one in caplog.records] == (
        [] if accepted else [True]
    )


async def test_a_policy_that_is_changed_under_a_worker_is_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Admin:
        async def start(self) -> None: ...

        async def close(self) -> None: ...

    async def there(_: Any) -> dict[str, int]:
        return {SETTINGS.topics.changelog: 4}

    async def configs(*_: Any) -> dict[str, dict[str, str]]:
        usual = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "9999999"}
        return {SETTINGS.topics.changelog: {"cleanup.policy": "compact,delete", **usual}}

    monkeypatch.setattr(creation, "AIOKafkaAdminClient", lambda **_: Admin())
    monkeypatch.setattr(creation, "partitions_by_topic", there)
    monkeypatch.setattr(creation, "_configs", configs)
    with caplog.at_level(logging.ERROR):
        await creation.check_again(SETTINGS.kafka, SETTINGS.topics)
    [record] = caplog.records
    assert "cleanup.policy=compact,delete" in record.getMessage()


async def test_settings_and_log_starts_are_checked_while_a_worker_runs(
    monkeypatch: pytest.MonkeyPatch, there: Topics, logs: InternalLogs
) -> None:
    assert there
    monkeypatch.setattr(internal_logs, "_EVERY_S", 0.001)
    monkeypatch.setattr(internal_logs, "_SETTINGS_S", 0.0)
    looks = asyncio.Queue[str]()

    async def settings() -> None:
        looks.put_nowait("settings")

    async def heads(_: Any) -> None:
        looks.put_nowait("heads")

    monkeypatch.setattr(logs, "look_at_heads", heads)
    running = asyncio.create_task(logs.run({}, settings))
    async with asyncio.timeout(LIMIT_S):
        assert {await looks.get(), await looks.get()} == {"settings", "heads"}
    running.cancel()
    await asyncio.wait([running])
