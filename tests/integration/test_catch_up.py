"""A catch-up waits for the reports on a real progress topic, and ignores reports that cannot come."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from confluent_kafka import Producer
from prometheus_client import REGISTRY

from app.engine.ownership import unread_backlog
from app.engine.ownership.unread_backlog import UnreadBacklog
from app.kafka import Cluster
from app.settings.settings import Settings
from tests.harness.kafka import create_topic
from tests.harness.waiting import LIMIT_S
from tests.integration.installation import new_app_id, topics_removed

GARBAGE = [
    (b"0", b"{"),
    (b"0", b"[" * 100_000),
    (b"9", b"\xff"),
    (b"1", b'{"partition":0,"positions":{}}'),
    (None, b""),
]


@pytest.fixture
def settings(bootstrap: str) -> Iterator[Settings]:
    """An installation of two partitions with a request in each, and a progress topic full of nonsense."""
    made = Settings.from_env({"DELAY_APP_ID": new_app_id("backlog"), "DELAY_PARTITIONS": "2"})
    with topics_removed(bootstrap, made.topics.app_id):
        create_topic(bootstrap, made.topics.requests, 2)
        create_topic(bootstrap, made.topics.progress, 1)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(2):
            producer.produce(made.topics.requests, b"", partition=number)
        for key, value in GARBAGE:
            producer.produce(made.topics.progress, value, key)
        producer.flush()
        yield made


@pytest.fixture
async def cluster(bootstrap: str, settings: Settings) -> AsyncIterator[Cluster]:
    """The cluster, connected."""
    made = Cluster(bootstrap)
    await made.start(settings.topics.progress)
    yield made
    await made.stop()


def looking(settings: Settings, cluster: Cluster, silent: tuple[int, ...] = ()) -> UnreadBacklog:
    """Begin to read the unread backlog, as a worker without a partition."""

    async def report() -> None:
        """Report no progress."""

    return UnreadBacklog(settings.topics, cluster, {}, lambda *_: True, report, silent)


def tell(bootstrap: str, settings: Settings, number: int, position: int, **more: str) -> None:
    """Write a report, as a worker does."""
    value = {"partition": number, "positions": {settings.topics.requests: position}, **more}
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(settings.topics.progress, json.dumps(value).encode(), b"%d" % number)
    producer.flush()


async def test_nonsense_among_the_reports_is_counted_and_passed_over(
    bootstrap: str, settings: Settings, cluster: Cluster
) -> None:
    for number in range(2):
        tell(bootstrap, settings, number, 1)
    look = looking(settings, cluster)
    async with asyncio.timeout(LIMIT_S):
        await look.cleared()

    assert not look.without
    assert REGISTRY.get_sample_value("delay_foreign_records_total", {"topic": settings.topics.progress}) == len(GARBAGE)


async def test_a_partition_without_reports_is_not_waited_for(
    bootstrap: str, settings: Settings, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_backlog, "SILENT_S", 1.0)
    tell(bootstrap, settings, 0, 1)
    look = looking(settings, cluster)
    async with asyncio.timeout(LIMIT_S):
        await look.cleared()

    assert look.without == {1}


async def test_a_stopped_partition_is_not_waited_for_but_a_restoring_one_is(
    bootstrap: str, settings: Settings, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_backlog, "SILENT_S", 2.5)  # a pause of the machine counts as one second of silence
    look = looking(settings, cluster)
    clearing = asyncio.ensure_future(look.cleared())
    for _ in range(20):  # longer than silence would be waited for
        tell(bootstrap, settings, 0, 0, state="restoring")
        tell(bootstrap, settings, 1, 0, state="stopped")
        await asyncio.sleep(0.25)
    assert not clearing.done()
    assert look.without == {1}
    tell(bootstrap, settings, 0, 1)
    async with asyncio.timeout(LIMIT_S):
        await clearing


async def test_a_partition_that_was_silent_before_is_waited_for_if_it_is_heard_of_again(
    bootstrap: str, settings: Settings, cluster: Cluster
) -> None:
    look = looking(settings, cluster, (0, 1))
    clearing = asyncio.ensure_future(look.cleared())
    for _ in range(12):
        tell(bootstrap, settings, 0, 0)
        await asyncio.sleep(0.25)
    assert not clearing.done()
    assert look.without == {1}
    clearing.cancel()
    look.close()
