"""Punctual's own topics: their numbers of partitions, the settings to create them with, and the sizes they allow."""

from dataclasses import dataclass

from app.settings.topics import TopicSettings

_MIB = 1 << 20
#: Kafka's default limit (message.max.bytes), and the extra bytes that a row may need compared with its request.
INPUT_BYTES, _EXTRA_BYTES = 1_048_588, _MIB
TOMBSTONES_MS = 7 * 86_400_000
_DAYS_7, _DAYS_30, _DAYS_365 = (str(days * 86_400_000) for days in (7, 30, 365))
#: With fewer in-sync replicas, a single disk can lose acknowledged records; with more, a restart of one broker stops
#: all writes. Receipts are spread over a few brokers; their keys are known for a day, and late ones get some hours.
_MIN_INSYNC_REPLICAS = 2
_RECEIPT_PARTITIONS, _HOURS_30 = 4, str(30 * 3_600_000)


@dataclass(slots=True)
class TopicLimits:
    """Maximum bytes of an encoded row, a request and a dead letter, and the time for which tombstones are kept.

    Parked messages return as requests. `cold` is whether the cold topic exists: messages may be parked, even if no
    further ones are. `producers_time` are inputs with their producers' timestamps.
    """

    row: int = 0
    request: int = 0
    dead_letter: int = 0
    tombstones_ms: int = TOMBSTONES_MS
    cold: bool = False
    producers_time: frozenset[str] = frozenset()


def plan(
    topic_settings: TopicSettings, input_bytes: int = INPUT_BYTES, *, cold: bool = False
) -> dict[str, tuple[int, dict[str, str]]]:
    """Return the required topics, with `cold` also the cold topic: partitions and settings to create them with."""
    large = {"max.message.bytes": str(input_bytes + _EXTRA_BYTES)}
    safe = _safe(topic_settings)
    compact = {
        "cleanup.policy": "compact",
        "segment.bytes": str(64 * _MIB),
        "segment.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": str(TOMBSTONES_MS),
    }
    requests = {"cleanup.policy": "delete", "retention.ms": _DAYS_7}
    events = {"cleanup.policy": "delete", "retention.ms": _DAYS_30}
    every = topic_settings.partitions
    topics = {topic: (every, {**safe, **requests}) for topic in topic_settings.inputs}
    if cold:
        topics[topic_settings.cold] = (every, {**safe, **events, **large})
    return topics | {
        topic_settings.forwards: (every, {**safe, **requests, **large}),
        topic_settings.changelog: (every, {**safe, **compact, **large}),
        topic_settings.events_topic: (every, {**safe, **events}),
        topic_settings.dead_letters: (every, {**safe, **events, **large}),
        topic_settings.progress: (1, {**safe, **compact, "segment.bytes": str(4 * _MIB), "segment.ms": "600000"}),
        topic_settings.controls: (1, {**safe, **compact, "segment.bytes": str(4 * _MIB)}),
    }


def when_needed(topics: TopicSettings) -> dict[str, tuple[int, dict[str, str]]]:
    """Return the topics that are created with the first action, job or gateway: partitions and settings."""
    safe = _safe(topics)
    return {
        topics.audit: (1, {**safe, "cleanup.policy": "delete", "retention.ms": _DAYS_365}),
        topics.jobs: (1, {**safe, "cleanup.policy": "compact,delete", "retention.ms": _DAYS_30}),
        topics.receipts: (
            _RECEIPT_PARTITIONS,
            {**safe, "cleanup.policy": "delete", "retention.ms": _HOURS_30, "segment.ms": "3600000"},
        ),
    }


def _safe(topics: TopicSettings) -> dict[str, str]:
    # The brokers' time is used, because they could refuse the records of a worker whose clock is wrong.
    safe = {"unclean.leader.election.enable": "false", "message.timestamp.type": "LogAppendTime"}
    if topics.replication_factor > 1:
        safe["min.insync.replicas"] = str(_MIN_INSYNC_REPLICAS)
    return safe
