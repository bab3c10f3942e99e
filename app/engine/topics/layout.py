"""How many partitions an installation has, where that has changed: what `faust -A app repartition` writes down.

It stands on a topic of its own, which nobody has whose number of partitions has never changed. Workers look there when
they start, before anything else: while partitions are rewritten none works, and afterwards none with the old settings.
"""

from typing import Literal

import msgspec

from app.base import topic_names
from app.base.errors import PunctualError
from app.kafka import Batch, Cluster, Sender
from app.kafka.metadata.reader import PartitionReader
from app.settings.settings import Settings
from app.settings.topics import TopicSettings

#: `copying`: the new changelog is written and checked; can be abandoned. `switching`: the new one holds, and topics get
#: their partitions. `done`: workers may start. `abandoned`: it is all as before.
Stage = Literal["copying", "switching", "done", "abandoned"]


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A change from `before` to `after` partitions, and how far it is.

    `inputs` are those of the settings that it began with, `forwards` where each partition's forwards ended then.
    `copied_to_ms` is the due time (epoch ms) before which all rows are in the new changelog. `run` counts the runs of
    the command: what an earlier one still writes, after the next has begun, does not count.
    """

    stage: Stage
    before: int
    after: int
    changelog_before: str
    changelog: str
    began_ms: int
    inputs: list[str] = []
    forwards: dict[int, int] = {}
    copied_to_ms: int = 0
    run: int = 0

    def forbids(self, topics: TopicSettings) -> str | None:
        """Return why a worker with these settings may not start, None if it may."""
        if self.stage in ("copying", "switching"):
            back = "" if self.stage == "switching" else ", or with --abandon to undo it"
            return (
                f"the repartition of this installation from {self.before} to {self.after} partitions is not "
                f"finished, and no worker can start before it is. Run `faust -A app repartition --to {self.after}` "
                f"with the previous settings of the workers{back}."
            )
        partitions, changelog = (
            (self.after, self.changelog) if self.stage == "done" else (self.before, self.changelog_before)
        )
        if (topics.partitions, topics.changelog) == (partitions, changelog):
            return None
        rewritten = "off" if changelog == topic_names.changelog(topics.app_id, 0) else "on"
        return (
            f"this installation has {partitions} partitions and the changelog {changelog}, but the settings say "
            f"{topics.partitions} and {topics.changelog}. Set DELAY_PARTITIONS={partitions} and "
            f"DELAY_REPARTITIONED={rewritten}, and restart."
        )


class LayoutForbids(PunctualError):
    """The number of partitions is being changed, or has been since these settings were made."""


async def read(topics: TopicSettings, cluster: Cluster) -> Layout | None:
    """Return the last change of the number of partitions, None if there has been none."""
    if await cluster.refresh([topic_names.layout(topics.app_id)]):
        return None
    reader, found = PartitionReader(cluster, topic_names.layout(topics.app_id), 0), None
    async for record in reader.up_to(await reader.end()):
        if record.value is not None:
            found = later(found, msgspec.json.decode(record.value, type=Layout))
    return found


def later(before: Layout | None, told: Layout) -> Layout:
    """Return which of two counts, the second of which was written later."""
    return told if before is None or told.run >= before.run else before


async def write(topics: TopicSettings, sender: Sender, layout: Layout, now_ms: int) -> None:
    """Write down how far a change is; it is there when this returns."""
    batch = Batch()
    # A key for each run: compaction must not keep what an earlier one has written after the last.
    batch.append(now_ms, b"%d" % layout.run, msgspec.json.encode(layout))
    await sender.submit(topic_names.layout(topics.app_id), 0, batch)


async def assure(settings: Settings) -> None:
    """See that a worker may start. To be called where the layout's topic is there.

    Raises LayoutForbids with what to do if it may not.
    """
    cluster = Cluster(settings.kafka.bootstrap, **settings.kafka.options())
    try:
        await cluster.start(topic_names.layout(settings.topics.app_id))
        layout = await read(settings.topics, cluster)
    finally:
        await cluster.stop()
    why = None if layout is None else layout.forbids(settings.topics)
    if why is not None:
        raise LayoutForbids(why)
