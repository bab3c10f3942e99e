"""Punctual's own topics: created for production if missing, checked if present; a mismatch stops the start."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import aiokafka.errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from app.base import topic_names
from app.base.errors import TopicMismatch
from app.base.patience import patiently
from app.engine.topics.internal_topics import INPUT_BYTES, TopicLimits, plan, when_needed
from app.engine.topics.rules import mismatches, risks
from app.settings.kafka import KafkaSettings
from app.settings.settings import Settings
from app.settings.topics import TopicSettings

log = logging.getLogger(__name__)

#: Bytes of a changelog batch in addition to its largest row: a step's 512 KiB, and its marks.
_BESIDE_BYTES = 768 * 1024
_LOOKS, _LOOK_S = 100, 0.1
_COORDINATOR_ERRORS = (
    aiokafka.errors.CoordinatorLoadInProgressError,
    aiokafka.errors.CoordinatorNotAvailableError,
    aiokafka.errors.NotCoordinatorError,
)


async def ensure(settings: Settings, assure_layout: Callable[[Settings], Awaitable[None]] | None = None) -> TopicLimits:
    """Create missing topics, check existing ones, and return the sizes that they allow.

    If the number of partitions has ever changed, `assure_layout` first checks that the settings match. Raises
    TopicMismatch with instructions.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap, **settings.kafka.options())
    await admin.start()
    try:
        return await patiently(lambda: _ensured(admin, settings, assure_layout), "checking topics")
    finally:
        await admin.close()


async def _ensured(
    admin: AIOKafkaAdminClient, settings: Settings, assure_layout: Callable[[Settings], Awaitable[None]] | None
) -> TopicLimits:
    there = await partitions_by_topic(admin)
    if assure_layout is not None and topic_names.layout(settings.topics.app_id) in there:
        await assure_layout(settings)
    _assure_changelog(settings.topics, there)
    await _assure_unused(admin, settings, there)
    # Without a horizon no further messages are parked, but parked messages return as long as the topic exists.
    cold = bool(settings.retention.horizon_ms) or settings.topics.cold in there
    configs = await _settled(admin, [topic for topic in plan(settings.topics, cold=cold) if topic in there])
    input_bytes = max(
        (int(configs[topic]["max.message.bytes"]) for topic in settings.topics.inputs if topic in configs),
        default=INPUT_BYTES,
    )
    wanted = plan(settings.topics, input_bytes, cold=cold)
    _tell_of_lost(settings.topics, there)
    await _create(admin, settings.topics, {topic: spec for topic, spec in wanted.items() if topic not in there})
    for topic, (partitions, config) in wanted.items():
        if topic in there:
            _check(settings.topics, topic, there[topic], partitions, configs[topic], config)
    final = await _settled(admin, list(wanted))
    holding = [settings.topics.changelog, settings.topics.forwards, *([settings.topics.cold] if cold else [])]
    return TopicLimits(
        min(int(final[topic]["max.message.bytes"]) for topic in holding) - _BESIDE_BYTES,
        int(final[settings.topics.requests]["max.message.bytes"]),
        int(final[settings.topics.dead_letters]["max.message.bytes"]),
        int(final[settings.topics.changelog]["delete.retention.ms"]),
        cold,
        frozenset(
            topic for topic in settings.topics.inputs if final[topic]["message.timestamp.type"] != "LogAppendTime"
        ),
    )


async def ensure_audit(kafka: KafkaSettings, topics: TopicSettings) -> None:
    """Create the topic of the audit if it is missing: it is needed from the first action on.

    Raises TopicMismatch if the brokers do not allow it.
    """
    await _ensure(kafka, topics, topics.audit)


async def ensure_jobs(kafka: KafkaSettings, topics: TopicSettings) -> None:
    """Create the topic of jobs if it is missing: it is needed from the first job on.

    Raises TopicMismatch if the brokers do not allow it.
    """
    await _ensure(kafka, topics, topics.jobs)


async def ensure_receipts(kafka: KafkaSettings, topics: TopicSettings) -> int:
    """Create the topic of receipts, which a gateway needs, if it is missing; return its number of partitions.

    Raises TopicMismatch if the brokers do not allow it.
    """
    return await _ensure(kafka, topics, topics.receipts)


async def _ensure(kafka: KafkaSettings, topics: TopicSettings, topic: str) -> int:
    """Create a topic if it is missing; return its number of partitions."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap, **kafka.options())
    await admin.start()
    try:
        there = await partitions_by_topic(admin)
        if topic not in there:
            await _create(admin, topics, {topic: when_needed(topics)[topic]})
        for _ in range(_LOOKS):
            if topic in there:
                break
            await asyncio.sleep(_LOOK_S)
            there = await partitions_by_topic(admin)
        else:
            raise aiokafka.errors.UnknownTopicOrPartitionError(topic)
        return there[topic]
    finally:
        await admin.close()


async def check_again(kafka: KafkaSettings, topics: TopicSettings) -> None:
    """Log an error for each setting of an existing topic that would lose messages.

    Raises aiokafka.errors.KafkaError if no broker answers.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap, **kafka.options())
    await admin.start()
    try:
        there = await partitions_by_topic(admin)
        wanted = plan(topics, cold=topics.cold in there)
        configs = await _configs(admin, [topic for topic in wanted if topic in there])
    finally:
        await admin.close()
    for topic, config in configs.items():
        partitions, needed = wanted[topic]
        for sentence in mismatches(topics, topic, partitions, partitions, config, needed):
            log.error("%s", sentence, extra={"topic": topic})


def _tell_of_lost(topics: TopicSettings, there: Collection[str]) -> None:
    """Log the losses of an existing installation that lacks a topic now."""
    if topics.changelog not in there:
        return
    holds = {
        topics.controls: "Active pauses and rates",
        topics.dead_letters: "Dead letters",
        topics.events_topic: "Events",
    }
    for topic, what in holds.items():
        if topic not in there:
            log.warning("topic %s is missing and is created again. %s are lost.", topic, what, extra={"topic": topic})


def _assure_changelog(topics: TopicSettings, there: Collection[str]) -> None:
    """Raise TopicMismatch if an empty changelog would be created although another one has the pending messages."""
    if topics.changelog in there:
        return
    any_number = topic_names.changelog(re.escape(topics.app_id), "[0-9]+")
    others = [name for name in there if re.fullmatch(any_number, name)]
    if topics.repartitioned == "on" or others:
        msg = (
            f"topic {topics.changelog} does not exist, and an empty topic would lose all pending messages. Check "
            "DELAY_PARTITIONS and DELAY_REPARTITIONED. Changelogs of this installation: "
            f"{', '.join(others) or 'none'}."
        )
        raise TopicMismatch(msg)


async def _assure_unused(admin: AIOKafkaAdminClient, settings: Settings, there: Collection[str]) -> None:
    """Check that an installation without a changelog is new. Raises TopicMismatch with instructions."""
    topics = settings.topics
    if topics.changelog in there or settings.engine.accepts_recreated(topics.changelog):
        return
    if await _has_databases(admin, topics, settings.data_path) or await _has_read(admin, topics, there):
        msg = (
            f"topic {topics.changelog} is missing, although this installation has processed messages before. An "
            "empty topic would lose all pending messages, and all requests would be read and delivered again. "
            f"Restore the topic, or set DELAY_ACCEPT_LOSS=recreated:{topics.changelog} for all workers and restart "
            "them: each writes its databases to a new changelog. Keep all data directories: they hold the only copy "
            "of the pending messages."
        )
        raise TopicMismatch(msg)


async def _has_databases(admin: AIOKafkaAdminClient, topics: TopicSettings, data_path: Path) -> bool:
    """Return whether the data directory belongs to this installation and holds databases."""
    cluster_id = (await admin.describe_cluster()).get("cluster_id") or ""
    return _holds_databases(data_path, f"{topics.app_id} on cluster ", cluster_id)


def _holds_databases(data_path: Path, begins: str, ends: str) -> bool:
    theirs = data_path / "installation"
    owner = theirs.read_text("utf-8").strip() if theirs.is_file() else ""
    return owner.startswith(begins) and owner.endswith(ends) and any(data_path.rglob("delays-*.db"))


async def _has_read(admin: AIOKafkaAdminClient, topics: TopicSettings, there: Collection[str]) -> bool:
    """Return whether the group has read records of existing inputs; brokers forget offsets of deleted topics."""
    for look in range(_LOOKS):
        try:
            read = await admin.list_consumer_group_offsets(topics.app_id)
            break
        except aiokafka.errors.GroupAuthorizationFailedError as error:
            msg = (
                f"this worker has no permission to read the group {topics.app_id}. Grant READ on the group to its "
                "principal."
            )
            raise TopicMismatch(msg) from error
        except _COORDINATOR_ERRORS:  # a new cluster creates its coordinators at the first request
            if look == _LOOKS - 1:
                raise
            await asyncio.sleep(_LOOK_S)
    return any(tp.topic in there and position.offset > 0 for tp, position in read.items() if tp.topic in topics.inputs)


async def partitions_by_topic(admin: AIOKafkaAdminClient) -> dict[str, int]:
    """Return the number of partitions of each topic except Kafka's own.

    One broker answers one request: asked by name, another broker might not know a new topic yet.
    """
    every = await admin.describe_topics()
    return {one["topic"]: len(one["partitions"]) for one in every if not one["topic"].startswith("__")}


async def _configs(admin: AIOKafkaAdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    configs: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources):
        for error, message, _, name, entries in response.resources:
            kind = aiokafka.errors.for_code(error)
            if kind is aiokafka.errors.TopicAuthorizationFailedError:
                raise _forbidden(name)
            if error:
                raise kind(message or name)
            configs[name] = {entry[0]: entry[1] for entry in entries}
    return configs


def _forbidden(topic: str) -> TopicMismatch:
    return TopicMismatch(
        f"the brokers do not let this worker read the settings of topic {topic}. Grant DESCRIBE_CONFIGS on it to its "
        "principal; `faust -A app doctor --acls kafka-acls` prints all permissions that a worker needs."
    )


async def _settled(admin: AIOKafkaAdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    """Return the topics' settings once the brokers know the topics: a creation takes a moment to spread."""
    for _ in range(_LOOKS):
        try:
            return await _configs(admin, topics)
        except aiokafka.errors.UnknownTopicOrPartitionError:
            await asyncio.sleep(_LOOK_S)
    return await _configs(admin, topics)


async def _create(
    admin: AIOKafkaAdminClient, topics: TopicSettings, wanted: dict[str, tuple[int, dict[str, Any]]]
) -> None:
    if not wanted:
        return
    new = [
        NewTopic(topic, partitions, topics.replication_factor, topic_configs=config)
        for topic, (partitions, config) in wanted.items()
    ]
    response = await admin.create_topics(new)
    for topic, error, message in response.topic_errors:
        kind = aiokafka.errors.for_code(error)
        if kind is aiokafka.errors.InvalidReplicationFactorError:
            msg = (
                f"topic {topic} cannot be created with replication factor {topics.replication_factor}: {message}. "
                "Set DELAY_REPLICATION_FACTOR to at most the number of brokers (1 for a single broker)."
            )
            raise TopicMismatch(msg)
        if kind not in (aiokafka.errors.NoError, aiokafka.errors.TopicAlreadyExistsError):
            partitions, config = wanted[topic]
            like = ", ".join(f"{name}={value}" for name, value in config.items())
            msg = (
                f"topic {topic} cannot be created: {kind.__name__}: {message}. Grant Create to this worker, or "
                f"create the topic with {partitions} partitions and {like}."
            )
            raise TopicMismatch(msg)
        log.info("created topic %s", topic, extra={"topic": topic})


def _check(
    topics: TopicSettings, topic: str, there: int, partitions: int, config: dict[str, str], wanted: dict[str, str]
) -> None:
    for sentence in mismatches(topics, topic, there, partitions, config, wanted):
        raise TopicMismatch(sentence)
    for sentence in risks(topic, config, wanted):
        log.warning("%s", sentence, extra={"topic": topic})
