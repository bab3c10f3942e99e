"""A worker that cannot work logs the reason and exits; a worker that can creates its topics for production."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from app.base.errors import TopicMismatch
from app.dev.broker.broker import Broker
from app.engine.topics.creation import ensure
from app.settings.settings import Settings
from tests.harness.attacker import Attacker, status
from tests.harness.kafka import create_topic
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S
from tests.harness.worker import Worker
from tests.integration.installation import alter_topic, new_app_id, topics_removed

pytestmark = pytest.mark.core

DAYS_7, DAYS_30 = str(7 * 86_400_000), str(30 * 86_400_000)
MIB = 1 << 20
#: Settings that the tests' workers have.
ONE = {"DELAY_PARTITIONS": "4", "DELAY_REPLICATION_FACTOR": "1"}


def refusal(bootstrap: str, directory: Path, app_id: str, **env: str) -> str:
    """Start a worker that cannot start, and return its last words."""
    with Worker(bootstrap, app_id, directory / "data", env=env) as worker:
        code = worker.start().wait_dead(60)
        assert code == 1, worker.log[-3000:]
        assert "Traceback" not in worker.log, worker.log[-3000:]
        words = [line for line in worker.log.splitlines() if "punctual: " in line]
        assert len(words) == 1, worker.log[-3000:]
        return words[0].rpartition("punctual: ")[2].strip()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("DELAY_PARTITIONS", "many", "it must be a whole number from 1 to 10000"),
        ("DELAY_INPUTS", "orders=esperanto", "the dialects are native"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(tmp_path: Path, name: str, value: str, says: str) -> None:
    words = refusal("127.0.0.1:1", tmp_path, "settings", **{name: value})

    assert words.startswith(f"{name}=")
    assert value in words
    assert says in words


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    words = refusal(bootstrap, tmp_path, "nobody")

    assert bootstrap in words
    assert "KAFKA_BOOTSTRAP_SERVERS" in words


def test_more_replicas_than_brokers_are_refused(bootstrap: str, tmp_path: Path) -> None:
    words = refusal(bootstrap, tmp_path, new_app_id("start"), DELAY_REPLICATION_FACTOR="50")

    assert "replication factor 50" in words
    assert "DELAY_REPLICATION_FACTOR" in words


def test_a_data_directory_that_another_worker_uses_is_refused(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("start")
    with topics_removed(bootstrap, app_id), Worker(bootstrap, app_id, tmp_path / "data") as first:
        first.start().wait_ready()
        second = Worker(bootstrap, app_id, tmp_path / "data")
        second._log = tmp_path / "second.log"
        with second:
            assert second.start().wait_dead(30) == 1
        assert "in use by another" in second.log
        assert str(tmp_path / "data") in second.log
        assert "Traceback" not in second.log
        assert first.ready()[0]


#: The topic, its partitions, its settings, and the worker's messages about them.
WRONG: dict[str, tuple[str, int, Mapping[str, str], tuple[str, ...]]] = {
    "requests of another width": ("requests", 3, {}, ("has 3 partitions, but needs 4", "DELAY_PARTITIONS=3")),
    "requests that are compacted": ("requests", 4, {"cleanup_policy": "compact"}, ("Set cleanup.policy=delete",)),
    "dead letters that are compacted": (
        "dead-letters",
        4,
        {"cleanup_policy": "compact,delete", "max_message_bytes": str(3 * MIB)},
        ("cleanup.policy=compact,delete", "Set cleanup.policy=delete"),
    ),
    "a changelog of another width": ("delays-changelog", 8, {"cleanup_policy": "compact"}, ("has 8 partitions",)),
    "forwards of another width": ("forwards", 1, {}, ("has 1 partitions",)),
    "a changelog that is deleted": ("delays-changelog", 4, {}, ("cleanup.policy=delete", "Set cleanup.policy=compact")),
    "a changelog that is deleted too": (
        "delays-changelog",
        4,
        {"cleanup_policy": "compact,delete"},
        ("cleanup.policy=compact,delete", "Set cleanup.policy=compact"),
    ),
    "a changelog of the producers' time": (
        "delays-changelog",
        4,
        {"cleanup_policy": "compact", "max_message_bytes": str(3 * MIB), "message_timestamp_type": "CreateTime"},
        ("message.timestamp.type=CreateTime", "Set message.timestamp.type=LogAppendTime"),
    ),
    "progress that is deleted": ("progress", 1, {}, ("cleanup.policy=delete",)),
    "a changelog too narrow for the requests": (
        "delays-changelog",
        4,
        {"cleanup_policy": "compact", "max_message_bytes": str(MIB)},
        ("max.message.bytes=1048576", f"Set max.message.bytes={1_048_588 + MIB}"),
    ),
    "forwards too narrow for the requests": (
        "forwards",
        4,
        {"max_message_bytes": "100000"},
        ("Set max.message.bytes",),
    ),
    "a cold topic of another width": ("cold", 3, {}, ("has 3 partitions, but needs 4",)),
    "dead letters too narrow": ("dead-letters", 4, {"max_message_bytes": "100000"}, ("Set max.message.bytes",)),
}


async def mismatch(bootstrap: str, app_id: str, **env: str) -> str:
    """Return why the check of topics, which is the first act of a worker, refuses an installation."""
    with pytest.raises(TopicMismatch) as refused:
        await ensure(Settings.from_env({"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "DELAY_APP_ID": app_id, **ONE, **env}))
    return str(refused.value)


@pytest.mark.parametrize("name", WRONG)
async def test_a_topic_that_would_lose_messages_stops_the_start(name: str, bootstrap: str) -> None:
    suffix, partitions, config, says = WRONG[name]
    app_id = new_app_id("start")
    with topics_removed(bootstrap, app_id):
        topic = create_topic(bootstrap, f"{app_id}-{suffix}", partitions, **config)
        words = await mismatch(bootstrap, app_id)

    assert topic in words
    assert all(part in words for part in says), words


def test_a_worker_says_which_topic_stops_its_start(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("start")
    with topics_removed(bootstrap, app_id):
        topic = create_topic(bootstrap, f"{app_id}-requests", 3)
        words = refusal(bootstrap, tmp_path, app_id)

    assert f"topic {topic} has 3 partitions, but needs 4" in words
    assert "DELAY_PARTITIONS=3" in words


def test_controls_whose_first_records_were_deleted_stop_the_start_until_that_is_accepted(
    bootstrap: str, tmp_path: Path
) -> None:
    app_id = new_app_id("start")
    with topics_removed(bootstrap, app_id):
        topic = create_topic(bootstrap, f"{app_id}-controls", 1, cleanup_policy="compact,delete")
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for destination in ("orders", "letters"):
            producer.produce(topic, b'{"paused": true}', destination)
        assert producer.flush(LIMIT_S) == 0
        place = TopicPartition(topic, 0, 1)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.delete_records([place])[place].result(LIMIT_S)
        alter_topic(bootstrap, topic, cleanup_policy="compact")
        words = refusal(bootstrap, tmp_path, app_id)
        assert f"topic {topic} begins at offset 1: its first records were deleted" in words
        assert f"DELAY_ACCEPT_LOSS={topic}" in words

        with Worker(bootstrap, app_id, tmp_path / "data", env={"DELAY_ACCEPT_LOSS": topic}) as worker:
            worker.start().wait_ready()
            assert "DELAY_ACCEPT_LOSS accepts this" in worker.log


async def test_another_systems_topic_with_other_partitions_stops_the_start_and_says_how_to_copy_it(
    bootstrap: str,
) -> None:
    app_id = new_app_id("start")
    with topics_removed(bootstrap, app_id):
        topic = create_topic(bootstrap, f"{app_id}-schedules", 3)
        words = await mismatch(bootstrap, app_id, DELAY_INPUTS=f"{topic}=etf1")

    assert f"{topic} has 3 partitions, but needs 4" in words
    assert "copy it into a separate input (docs/how-to/foreign-topics.md)" in words


@pytest.fixture(scope="module")
def made(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """The settings of the topics that a worker has made, by the last part of their names."""
    app_id = new_app_id("start")
    create_topic(bootstrap, f"{app_id}-wide", 4, max_message_bytes=str(3 * MIB))
    env = {"DELAY_INPUTS": f"{app_id}-wide=native,{app_id}-new=native"}
    env |= {"DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M"}
    worker = Worker(bootstrap, app_id, tmp_path_factory.mktemp("start") / "data", env=env)
    with topics_removed(bootstrap, app_id), worker:
        worker.start().wait_ready()
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        topics = [
            topic for topic in admin.list_topics(timeout=LIMIT_S).topics.values() if topic.topic.startswith(app_id)
        ]
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic.topic) for topic in topics]
        found = {}
        for resource, future in admin.describe_configs(resources).items():
            found[resource.name.removeprefix(f"{app_id}-")] = {n: e.value for n, e in future.result(LIMIT_S).items()}
        for topic in topics:
            found[topic.topic.removeprefix(f"{app_id}-")]["partitions"] = str(len(topic.partitions))
        yield found


LARGE = {"max.message.bytes": str(4 * MIB)}
BROKERS_TIME = {"message.timestamp.type": "LogAppendTime", "unclean.leader.election.enable": "false"}
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": DAYS_7}
MADE = {
    "requests": {"partitions": "4", "cleanup.policy": "delete", "retention.ms": DAYS_7, **BROKERS_TIME},
    "new": {"partitions": "4", "cleanup.policy": "delete", "retention.ms": DAYS_7, **BROKERS_TIME},
    "forwards": {"partitions": "4", "cleanup.policy": "delete", "retention.ms": DAYS_7, **BROKERS_TIME, **LARGE},
    "delays-changelog": {
        "partitions": "4",
        "segment.bytes": str(64 * MIB),
        "segment.ms": "3600000",
        **COMPACT,
        **BROKERS_TIME,
        **LARGE,
    },
    "events": {"partitions": "4", "cleanup.policy": "delete", "retention.ms": DAYS_30, **BROKERS_TIME},
    "dead-letters": {"partitions": "4", "cleanup.policy": "delete", "retention.ms": DAYS_30, **BROKERS_TIME, **LARGE},
    "cold": {"partitions": "4", "cleanup.policy": "delete", "retention.ms": DAYS_30, **BROKERS_TIME, **LARGE},
    "controls": {"partitions": "1", **COMPACT, **BROKERS_TIME},
    "progress": {"partitions": "1", **COMPACT, **BROKERS_TIME},
}


@pytest.mark.parametrize("topic", MADE)
def test_topics_are_made_for_production(topic: str, made: dict[str, dict[str, str]]) -> None:
    assert made[topic] | MADE[topic] == made[topic]


def test_no_other_topics_are_made(made: dict[str, dict[str, str]]) -> None:
    assert set(made) == {*MADE, "wide"}


@pytest.mark.kafka
def test_a_normal_start_logs_no_error(tmp_path: Path) -> None:
    """The first start of a cluster's first group, bytes on the port that are no HTTP, and a stop at any moment."""
    with Broker() as broker, Worker(broker.bootstrap, "calm", tmp_path / "data") as worker:
        for _ in range(2):
            worker.start().wait_ready()
            for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100, b"hello\r\n\r\n"):
                with Attacker(worker.port) as attacker:
                    attacker.send(data)
                    assert status(attacker.answer()) == 400
            worker.terminate()
            assert worker.wait_dead(30) == 0
            assert not re.search(r"\[(ERROR|CRITICAL)\]", worker.log), worker.log[-5_000:]
