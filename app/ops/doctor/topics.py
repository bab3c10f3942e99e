"""Checks Punctual's own topics: whether they exist, with the settings that a worker would give them."""

from collections.abc import Iterator, Mapping

from app.engine.topics.internal_topics import INPUT_BYTES, plan, when_needed
from app.engine.topics.rules import compacted, mismatches, risks
from app.ops.doctor.brokers import release
from app.ops.doctor.facts import ClusterFacts, Facts, Topic
from app.ops.doctor.finding import Finding
from app.settings.retention import RetentionSettings
from app.settings.topics import TopicSettings

CHECK = "topics"
Plan = Mapping[str, tuple[int, dict[str, str]]]
#: Settings that may differ without a remark, because their topics are safe with other values too.
_AT_LEAST = ("max.message.bytes", "min.insync.replicas")


def names(topics: TopicSettings) -> list[str]:
    """Return the topics to describe."""
    return [*plan(topics, cold=True), *when_needed(topics)]


def check(topics: TopicSettings, retention: RetentionSettings, facts: Facts) -> Iterator[Finding]:
    """Yield the state of each topic."""
    cluster = facts.cluster
    cold = bool(retention.horizon_ms) or _there(cluster, topics.cold)
    needed = plan(topics, _input_bytes(topics, cluster), cold=cold)
    reported = bool(facts.reports)
    for topic, (partitions, wanted) in needed.items():
        described = cluster.topics.get(topic) or Topic(name=topic, error="UnknownTopicOrPartitionError")
        if described.there:
            yield from _one(topics, cluster, described, partitions, wanted)
        else:
            yield _missing(described, partitions, wanted, reported=reported)
    for topic, (partitions, wanted) in when_needed(topics).items():
        if _there(cluster, topic):
            yield from _one(topics, cluster, cluster.topics[topic], partitions, wanted)


def _there(cluster: ClusterFacts, topic: str) -> bool:
    return topic in cluster.topics and cluster.topics[topic].there


def _input_bytes(topics: TopicSettings, cluster: ClusterFacts) -> int:
    configs = (cluster.topics[topic].config for topic in topics.inputs if topic in cluster.topics)
    return max((int(config["max.message.bytes"]) for config in configs if config), default=INPUT_BYTES)


def _missing(topic: Topic, partitions: int, wanted: Mapping[str, str], *, reported: bool) -> Finding:
    name = topic.name
    if not topic.absent:
        sentence = f"topic {name} cannot be described ({topic.error}). Grant Describe and DescribeConfigs on it."
        return Finding("error", CHECK, name, sentence)
    like = ", ".join(f"{key}={value}" for key, value in wanted.items())
    make = f"Create it with {partitions} partitions and {like}"
    if reported:
        sentence = f"topic {name} has been deleted: workers used it before. {make}, and find out who deleted it."
        return Finding("error", CHECK, name, sentence)
    sentence = f"topic {name} does not exist. The first worker creates it if it has permission. {make} otherwise."
    return Finding("warning", CHECK, name, sentence)


def _one(
    topics: TopicSettings, cluster: ClusterFacts, topic: Topic, partitions: int, wanted: dict[str, str]
) -> Iterator[Finding]:
    config, name = topic.config, topic.name
    findings = list(_replicas(topics, cluster, topic))
    if config is None:
        sentence = f"the settings of topic {name} cannot be read ({topic.config_error}). Grant DescribeConfigs on it."
        findings.append(Finding("error", CHECK, name, sentence))
    else:
        wrong = [*mismatches(topics, name, len(topic.partitions), partitions, config, wanted)]
        if name in _read_through(topics):
            wrong += [sentence for sentence in compacted(name, config, wanted) if sentence not in wrong]
        findings += [Finding("error", CHECK, name, sentence) for sentence in wrong]
        unsafe = (risk.rstrip(".") for risk in risks(name, config, wanted) if risk not in wrong)
        findings += [
            Finding("warning", CHECK, name, f"{risk}. Use the setting with which a worker creates the topic.")
            for risk in unsafe
        ]
        findings += _room(cluster, topic, config)
    if not findings:
        assert config is not None, "a topic without settings has a finding"
        findings.append(Finding("ok", CHECK, name, _fine(topic, config, wanted)))
    yield from findings


def _fine(topic: Topic, config: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Return a sentence about a correct topic, with the settings that differ from a worker's."""
    other = [
        f"{key}={config[key]} instead of {value}"
        for key, value in wanted.items()
        if key in config and key not in _AT_LEAST and config[key] != value
    ]
    differs = f", with {', '.join(other)}" if other else ""
    return f"topic {topic.name} has {len(topic.partitions)} partition(s) with the right settings{differs}."


def _read_through(topics: TopicSettings) -> set[str]:
    """Return the topics that are read through, in which a later record with the same key replaces none."""
    return {
        *topics.inputs,
        topics.forwards,
        topics.events_topic,
        topics.dead_letters,
        topics.cold,
    }


def _room(cluster: ClusterFacts, topic: Topic, config: Mapping[str, str]) -> Iterator[Finding]:
    """Yield an error if there are fewer replicas than min.insync.replicas; Kafka 4 accepts writes all the same."""
    if all(versions is not None and release(versions) == "4.0" for versions in cluster.brokers.values()):
        return
    least, have = int(config["min.insync.replicas"]), min((len(one.replicas) for one in topic.partitions), default=0)
    if have < least:
        sentence = (
            f"topic {topic.name} has min.insync.replicas={least} and only {have} replica(s): it accepts no "
            "records. Give it "
            f"more replicas, or set min.insync.replicas={have}."
        )
        yield Finding("error", CHECK, topic.name, sentence)


def _replicas(topics: TopicSettings, cluster: ClusterFacts, topic: Topic) -> Iterator[Finding]:
    name = topic.name
    headless = [number for number, one in enumerate(topic.partitions) if one.leader < 0]
    short = [number for number, one in enumerate(topic.partitions) if len(one.in_sync) < len(one.replicas)]
    have = min((len(one.replicas) for one in topic.partitions), default=0)
    if headless:
        sentence = (
            f"topic {name} has no leader for partition(s) {_listed(headless)}. Check which of its brokers are down."
        )
        yield Finding("error", CHECK, name, sentence)
    least = int((topic.config or {}).get("min.insync.replicas") or 1)
    refusing = [number for number in short if 0 < len(topic.partitions[number].in_sync) < least]
    if refusing:
        sentence = (
            f"topic {name} has fewer in-sync replicas than min.insync.replicas={least} in partition(s) "
            f"{_listed(refusing)}: nothing can be written there. Check which brokers are down."
        )
        yield Finding("error", CHECK, name, sentence)
    elif short:
        sentence = (
            f"topic {name} has too few in-sync replicas in partition(s) {_listed(short)}. Check which brokers are down."
        )
        yield Finding("warning", CHECK, name, sentence)
    wanted = topics.replication_factor
    if have < wanted:
        sentence = (
            f"topic {name} has {have} replica(s), DELAY_REPLICATION_FACTOR is {wanted}: losing a broker may lose "
            "data. Add replicas (kafka-reassign-partitions), or change the setting."
        )
        yield Finding("warning", CHECK, name, sentence)
    elif have == 1 < len(cluster.brokers):
        sentence = f"topic {name} has only one replica: losing one broker loses its data. Give it three."
        yield Finding("warning", CHECK, name, sentence)


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown if len(numbers) <= 5 else f"{shown} and {len(numbers) - 5} more"  # noqa: PLR2004 - enough to find them
