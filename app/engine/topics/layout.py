"""The number of partitions of an installation after a change, recorded by `faust -A app repartition`.

The record has its own topic, which exists only after such a change. Workers read it first at their start: while
partitions are rewritten no worker can start, and afterwards none with the old settings.
"""

from typing import Literal

import msgspec

from app.base import topic_names
from app.base.errors import PunctualError
from app.kafka import Batch, Cluster, Sender
from app.kafka.metadata.reader import PartitionReader
from app.settings.settings import Settings
from app.settings.topics import TopicSettings

#: `copying`: the new changelog is being written and checked; can be abandoned. `switching`: the new changelog is in
#: force, and topics get their partitions. `done`: workers may start. `abandoned`: the former number stays.
Stage = Literal["copying", "switching", "done", "abandoned"]


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A change from `before` to `after` partitions, and its stage.

    `inputs` are those of the settings at its start, `forwards` the ends of all partitions' forwards then. All rows due
    before `copied_to_ms` (epoch ms) are in the new changelog. `run` counts the runs of the command: records that an
    earlier run writes after the next has begun do not count.
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
    """The number of partitions is being changed, or has been changed since these settings were written."""


async def read(topics: TopicSettings, cluster: Cluster) -> Layout | None:
    """Return the last change of the number of partitions, None if there is none."""
    if await cluster.refresh([topic_names.layout(topics.app_id)]):
        return None
    reader, layout = PartitionReader(cluster, topic_names.layout(topics.app_id), 0), None
    async for record in reader.up_to(await reader.end()):
        if record.value is not None:
            layout = later(layout, msgspec.json.decode(record.value, type=Layout))
    return layout


def later(before: Layout | None, layout: Layout) -> Layout:
    """Return the record that counts: `layout`, which was written later, unless its run is an earlier one."""
    return layout if before is None or layout.run >= before.run else before


async def write(topics: TopicSettings, sender: Sender, layout: Layout, now_ms: int) -> None:
    """Write the stage of a change; it is stored when this returns."""
    batch = Batch()
    # Each run has its own key, so that compaction does not keep records that an earlier run wrote after the last one.
    batch.append(now_ms, b"%d" % layout.run, msgspec.json.encode(layout))
    await sender.submit(topic_names.layout(topics.app_id), 0, batch)


async def assure(settings: Settings) -> None:
    """Check that a worker may start. Call it only if the layout's topic exists.

    Raises LayoutForbids with instructions if it may not.
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
