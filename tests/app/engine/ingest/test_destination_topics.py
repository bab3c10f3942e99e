"""A topic that has just been created is found, and invented names delay no request for long."""

import asyncio

from app.engine.ingest.destination_topics import DestinationTopics
from tests.app.fake_kafka import ScriptedCluster
from tests.harness.simulated_time import in_simulated_time

HEARD_S = 0.2
PATIENCE_S = 0.5


def later(cluster: ScriptedCluster, topic: str) -> None:
    """Let the brokers hear of a topic in a moment."""
    asyncio.get_running_loop().call_later(HEARD_S, cluster.topics.update, {topic: 4})


async def seconds(destinations: DestinationTopics, *topics: str) -> float:
    """Learn about topics and give how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await destinations.learn(topics)
    return loop.time() - began


@in_simulated_time
async def test_a_topic_that_the_brokers_have_not_heard_of_yet_is_waited_for() -> None:
    cluster = ScriptedCluster()
    destinations = DestinationTopics(cluster)  # type: ignore[arg-type]
    later(cluster, "new")

    await asyncio.gather(*(destinations.learn(["new"]) for _ in range(3)))  # as partitions do

    assert destinations.partitions("new") == 4


@in_simulated_time
async def test_unknown_names_delay_requests_once_and_not_each_time() -> None:
    destinations = DestinationTopics(ScriptedCluster())  # type: ignore[arg-type]

    assert await seconds(destinations, "typo") > PATIENCE_S / 2
    assert await seconds(destinations, "typo") < PATIENCE_S / 2  # it is believed to be absent
    assert await seconds(destinations, "another", "and-another") < PATIENCE_S / 2  # enough for now


@in_simulated_time
async def test_a_missing_name_is_looked_up_again_after_a_second() -> None:
    cluster = ScriptedCluster()
    destinations = DestinationTopics(cluster)  # type: ignore[arg-type]
    await destinations.learn(["late"])
    cluster.topics["late"] = 2
    asked: list[object] = []
    refresh = cluster.refresh

    async def counted(topics: set[str]) -> set[str]:
        asked.append(topics)
        return await refresh(topics)

    cluster.refresh = counted  # type: ignore[method-assign, assignment]
    await destinations.learn(["late"])
    assert not asked
    await asyncio.sleep(1.1)
    await destinations.learn(["late"])
    assert asked == [{"late"}]


@in_simulated_time
async def test_what_can_be_no_topic_is_not_asked_for() -> None:
    cluster = ScriptedCluster()
    cluster.away = ValueError("it does not fit into a request")

    assert await seconds(DestinationTopics(cluster), "x" * 40_000, "ä", "") < PATIENCE_S / 2  # type: ignore[arg-type]
