"""Preconditions of a repartition, which are checked before any change."""

from collections.abc import Mapping

from app.engine.topics.layout import Layout
from app.ops.repartition.errors import NotReady
from app.ops.repartition.ground import Ground
from app.ops.repartition.switching import grown
from app.settings.settings import Settings
from app.settings.topics import MAX_PARTITIONS, TopicSettings
from tables import PartitionStore, keys


def assure_number(settings: Settings, after: int) -> None:
    """Check that the number of partitions can be increased to `after`. Raises NotReady."""
    if after <= settings.topics.partitions:
        msg = (
            f"--to {after} is not more than DELAY_PARTITIONS={settings.topics.partitions}: Kafka can only add "
            "partitions to a topic. For fewer partitions, export the pending messages and import them into a new "
            "installation (docs/how-to/backup.md)."
        )
        raise NotReady(msg)
    if after > MAX_PARTITIONS:
        raise NotReady(f"--to {after} is more than {MAX_PARTITIONS:,}, the maximum number of partitions.")
    _assure_names(settings.repartitioned(after).topics)


def _assure_names(topics: TopicSettings) -> None:
    """Check that workers will accept the inputs' names after the change. Raises NotReady."""
    for topic in topics.inputs:
        _assure_name(topic)
    forwards = keys.topic_crc(topics.forwards)
    if forwards < keys.MOVED or forwards in map(keys.topic_crc, topics.inputs):
        msg = (
            f"--to {topics.partitions} needs the topic {topics.forwards}, but the CRC-32 of this name is reserved, or "
            "is that of an input (as for one name in 4,096). Choose another number of partitions."
        )
        raise NotReady(msg)


def assure_layout(topics: TopicSettings, after: int, layout: Layout | None) -> None:
    """Check that an unfinished change has the same target, and that the settings are those from before it.

    Raises NotReady if not.
    """
    if layout is None:
        return
    if layout.stage in ("done", "abandoned"):
        why = layout.forbids(topics)
        if why is not None:
            raise NotReady(why)
        return
    began = (layout.before, layout.changelog_before, layout.after)
    if began != (topics.partitions, topics.changelog, after):
        msg = (
            f"a repartition from {layout.before} to {layout.after} partitions has begun. Finish it first: "
            f"DELAY_PARTITIONS={layout.before}, the changelog {layout.changelog_before} and --to {layout.after}."
        )
        raise NotReady(msg)
    if set(layout.inputs) != set(topics.inputs):
        msg = (
            f"this repartition has begun with the inputs {', '.join(sorted(layout.inputs))}. Set DELAY_INPUTS to its "
            "previous value, because the home partition of ids depends on it."
        )
        raise NotReady(msg)


async def assure_topics(ground: Ground, layout: Layout | None) -> None:
    """Check that the topics are as required, and that no new topic exists yet. Raises NotReady."""
    settings, after = ground.before.settings, ground.after.settings
    there = await ground.topics.partitions()
    if settings.topics.cold in there or settings.retention.horizon_ms:
        msg = (
            f"the cold tier is in use ({settings.topics.cold}), and its messages cannot be repartitioned yet. Wait "
            "until it is empty, stop it, check that it holds no messages, delete the topic and remove DELAY_HORIZON. "
            "Or start a second installation (docs/how-to/operate.md)."
        )
        raise NotReady(msg)
    for topic in (settings.topics.changelog, settings.topics.forwards, *grown(settings.topics)):
        if topic not in there:
            raise NotReady(f"topic {topic} does not exist. Check DELAY_APP_ID and DELAY_PARTITIONS.")
        switching = layout is not None and layout.stage == "switching"
        may_be_more = topic in settings.topics.inputs or (switching and topic in grown(settings.topics))
        allowed = {settings.topics.partitions, after.topics.partitions} if may_be_more else {settings.topics.partitions}
        if there[topic] not in allowed:
            raise NotReady(
                f"topic {topic} has {there[topic]} partitions, but should have "
                f"{' or '.join(map(str, sorted(allowed)))}. Check DELAY_PARTITIONS."
            )
    if layout is None or layout.stage not in ("copying", "switching"):
        _assure_free(there, after.topics)


def _assure_free(there: Mapping[str, int], topics: TopicSettings) -> None:
    """Check that the new topics are not left from an earlier attempt, because their records would be used."""
    for topic in (topics.changelog, topics.forwards):
        if topic in there:
            msg = f"topic {topic} is left from an earlier attempt. Delete it, and run the command again."
            raise NotReady(msg)


async def assure_stopped(ground: Ground) -> None:
    """Check that no worker is in the group. Raises NotReady if one is."""
    settings, members = ground.before.settings, await ground.topics.members()
    if members:
        msg = (
            f"{members} worker(s) are in the group {settings.topics.app_id}. Stop all workers with SIGTERM. A "
            f"worker that was killed leaves the group after {settings.engine.session_timeout_ms // 1_000} s. "
            "Producers can continue."
        )
        raise NotReady(msg)


def assure_numbers(stores: list[PartitionStore]) -> None:
    """Check that no input's CRC-32 is among the numbers for origins.

    Raises NotReady if one is.
    """
    topics = {topic for store in stores for topic in store.positions}
    for topic in sorted(topics):
        _assure_name(topic)


def _assure_name(topic: str) -> None:
    if keys.topic_crc(topic) < keys.MOVED:
        msg = (
            f"the CRC-32 of the input name {topic} is reserved (as for one name in 4,096). Export the pending "
            "messages and import them into a new installation instead (docs/how-to/backup.md)."
        )
        raise NotReady(msg)
