"""What a topic that is there must be like: what would lose messages, and what puts them at risk."""

from collections.abc import Iterator, Mapping

from app.settings.settings import Settings
from punctual.contract.dialects.dialects import NATIVE

Config = Mapping[str, str]


def mismatches(
    settings: Settings, topic: str, there: int, partitions: int, config: Config, wanted: Config
) -> Iterator[str]:
    """Yield a sentence for each thing that would lose messages: it stops a worker that starts.

    `there` is the number of partitions that the topic has, `partitions` and `wanted` what it would be created with.
    """
    if there != partitions:
        yield _other_number(settings, topic, there, partitions)
    policy, kept = config["cleanup.policy"], (settings.changelog, settings.progress)
    if topic == settings.changelog and policy != "compact":
        yield (
            f"topic {topic} has cleanup.policy={policy}, which deletes pending messages. Set cleanup.policy=compact, "
            "and keep all data directories: records may be deleted already, and workers write their databases to the "
            "changelog again."
        )
    if topic == settings.progress and policy != "compact":
        yield f"topic {topic} has cleanup.policy={policy}, which deletes reports. Set cleanup.policy=compact."
    if topic in _whole(settings):
        yield from compacted(topic, config, wanted)
    if topic == settings.controls and policy != "compact":
        yield (
            f"topic {topic} has cleanup.policy={policy}, which deletes pauses and rates that are in force. Set "
            "cleanup.policy=compact, and see that all of them are still there."
        )
    if topic in kept and config["message.timestamp.type"] != "LogAppendTime":
        yield (
            f"topic {topic} has message.timestamp.type={config['message.timestamp.type']}. Without the brokers' time "
            "no worker's clock is ever confirmed, and nothing is delivered. Set message.timestamp.type=LogAppendTime."
        )
    least = int(wanted.get("max.message.bytes", 0))
    if int(config["max.message.bytes"]) < least:
        yield (
            f"topic {topic} has max.message.bytes={config['max.message.bytes']}, the inputs take messages that need "
            f"{least} there. Set max.message.bytes={least}."
        )


def _whole(settings: Settings) -> frozenset[str]:
    """Return the topics of which no record may be lost: the requests and other topics of the contract.

    Other systems' topics are read as they are, for some of them have to be compacted.
    """
    native = [topic for topic, dialect in settings.inputs.items() if dialect == NATIVE.name]
    return frozenset({*native, settings.forwards, settings.cold, settings.dead_letters})


def compacted(topic: str, config: Config, wanted: Config) -> Iterator[str]:
    """Yield a sentence if a topic is compacted that is not made so."""
    policy = config["cleanup.policy"]
    if "compact" in policy.split(",") and "compact" not in wanted.get("cleanup.policy", ""):
        yield (
            f"topic {topic} has cleanup.policy={policy}: of records with the same key all but the last may be lost "
            "before they are read, and those without a key are refused. Set cleanup.policy=delete."
        )


def risks(topic: str, config: Config, wanted: Config) -> Iterator[str]:
    """Yield a sentence for each thing by which brokers may lose what a topic holds."""
    if config["unclean.leader.election.enable"] == "true":
        yield f"topic {topic} has unclean.leader.election.enable=true: brokers may lose what it holds"
    yield from compacted(topic, config, wanted)
    if int(config["min.insync.replicas"]) < int(wanted.get("min.insync.replicas", 0)):
        yield (
            f"topic {topic} has min.insync.replicas={config['min.insync.replicas']}, DELAY_MIN_INSYNC_REPLICAS is "
            f"{wanted['min.insync.replicas']}: brokers may lose what it holds"
        )


def _other_number(settings: Settings, topic: str, there: int, partitions: int) -> str:
    """Return a sentence about a topic that has another number of partitions: none that loses what it holds."""
    has = f"topic {topic} has {there} partitions, {partitions} are needed"
    if topic in (settings.progress, settings.controls):
        holds = "pauses and rates, which have to be set again" if topic == settings.controls else "reports"
        return (
            f"{has}. It holds nothing but {holds}: stop all workers, delete it, and start them. They create it with "
            "one partition."
        )
    msg = f"{has} (DELAY_PARTITIONS)."
    keep = "Do not delete the topic: pending messages, or requests that are not read yet, are in it."
    if topic in settings.inputs and there > partitions:
        return (
            f"{msg} Kafka cannot take partitions away. Set DELAY_PARTITIONS={there} if that is what it was, or stop "
            f"all workers and run `faust -A app repartition --to {there}`, which moves pending messages. {keep}"
        )
    if topic in settings.inputs and topic != settings.requests:
        return (
            f"{msg} If it is another system's, copy it into an input of its own (docs/how-to/foreign-topics.md); "
            f"a new installation can also have DELAY_PARTITIONS={there}."
        )
    return (
        f"{msg} Set DELAY_PARTITIONS={there} if that is what it was: only `faust -A app repartition` changes it "
        f"(docs/how-to/repartition.md). {keep}"
    )
