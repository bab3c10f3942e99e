"""Checks of an existing topic: settings that would lose messages, and settings that put them at risk."""

from collections.abc import Iterator, Mapping

from app.settings.topics import TopicSettings
from punctual.contract.dialects.dialects import NATIVE

Config = Mapping[str, str]


def mismatches(
    topics: TopicSettings, topic: str, there: int, partitions: int, config: Config, wanted: Config
) -> Iterator[str]:
    """Yield an error for each setting that would lose messages; a worker must not start then.

    `there` is the topic's number of partitions; `partitions` and `wanted` are those that it would be created with.
    """
    if there != partitions:
        yield _other_number(topics, topic, there, partitions)
    policy, kept = config["cleanup.policy"], (topics.changelog, topics.progress)
    if topic == topics.changelog and policy != "compact":
        yield (
            f"topic {topic} has cleanup.policy={policy}, which deletes pending messages. Set cleanup.policy=compact, "
            "and keep all data directories: records may already be deleted, and workers write their databases to "
            "the changelog again."
        )
    if topic == topics.progress and policy != "compact":
        yield f"topic {topic} has cleanup.policy={policy}, which deletes reports. Set cleanup.policy=compact."
    if topic in _whole(topics):
        yield from compacted(topic, config, wanted)
    if topic == topics.controls and policy != "compact":
        yield (
            f"topic {topic} has cleanup.policy={policy}, which deletes active pauses and rates. Set "
            "cleanup.policy=compact, and check that none is missing."
        )
    if topic in kept and config["message.timestamp.type"] != "LogAppendTime":
        yield (
            f"topic {topic} has message.timestamp.type={config['message.timestamp.type']}. Without the brokers' "
            "time, workers cannot confirm their clocks and deliver no messages. Set "
            "message.timestamp.type=LogAppendTime."
        )
    least = int(wanted.get("max.message.bytes", 0))
    if int(config["max.message.bytes"]) < least:
        yield (
            f"topic {topic} has max.message.bytes={config['max.message.bytes']}, but the inputs accept messages that "
            f"need {least} in it. Set max.message.bytes={least}."
        )


def _whole(topics: TopicSettings) -> frozenset[str]:
    """Return the topics that must not lose any record: the requests and other topics of the contract.

    Inputs of other systems are not included, because some have to be compacted.
    """
    native = [topic for topic, dialect in topics.inputs.items() if dialect == NATIVE.name]
    return frozenset({*native, topics.forwards, topics.cold, topics.dead_letters})


def compacted(topic: str, config: Config, wanted: Config) -> Iterator[str]:
    """Yield an error if a topic is compacted that should not be."""
    policy = config["cleanup.policy"]
    if "compact" in policy.split(",") and "compact" not in wanted.get("cleanup.policy", ""):
        yield (
            f"topic {topic} has cleanup.policy={policy}: Kafka may delete all but the last record of a key before "
            "they are read, and refuses records without a key. Set cleanup.policy=delete."
        )


def risks(topic: str, config: Config, wanted: Config) -> Iterator[str]:
    """Yield a warning for each setting with which brokers may lose records of a topic."""
    if config["unclean.leader.election.enable"] == "true":
        yield f"topic {topic} has unclean.leader.election.enable=true: brokers may lose its records"
    yield from compacted(topic, config, wanted)
    if int(config["min.insync.replicas"]) < int(wanted.get("min.insync.replicas", 0)):
        yield (
            f"topic {topic} has min.insync.replicas={config['min.insync.replicas']}: brokers may lose its records. "
            f"Set min.insync.replicas={wanted['min.insync.replicas']}."
        )


def _other_number(topics: TopicSettings, topic: str, there: int, partitions: int) -> str:
    """Return an error about a topic with another number of partitions, which does not advise to lose its records."""
    has = f"topic {topic} has {there} partitions, but needs {partitions}"
    if topic in (topics.progress, topics.controls):
        holds = "pauses and rates, which have to be set again" if topic == topics.controls else "reports"
        return (
            f"{has}. It holds only {holds}. Stop all workers, delete the topic, and start the workers. They create "
            "it with one partition."
        )
    msg = f"{has} (DELAY_PARTITIONS)."
    keep = "Do not delete the topic: it contains pending messages or unread requests."
    if topic in topics.inputs and there > partitions:
        return (
            f"{msg} Kafka cannot remove partitions. If the installation had {there} partitions before, set "
            f"DELAY_PARTITIONS={there}. Otherwise, stop all workers and run `faust -A app repartition --to {there}`, "
            f"which moves pending messages. {keep}"
        )
    if topic in topics.inputs and topic != topics.requests:
        return (
            f"{msg} If the topic belongs to another system, copy it into a separate input "
            f"(docs/how-to/foreign-topics.md). In a new installation, you can set DELAY_PARTITIONS={there} instead."
        )
    return (
        f"{msg} If the installation had {there} partitions before, set DELAY_PARTITIONS={there}. Only `faust -A app "
        f"repartition` changes the number of partitions (docs/how-to/repartition.md). {keep}"
    )
