"""What the workers have told of their progress, as it stood before the events' end was fixed."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.context import JobContext
from pipeline.kafka import Offsets


@dataclass(frozen=True)
class ReportedProgress:
    """A partition's last word: all that was due up to `fired_to` among records before `positions` is dealt with.

    `pending` is what it held then, `held` the oldest due time of each destination that takes nothing. Epoch ms.
    """

    at: int
    fired_to: int
    positions: dict[str, int]
    pending: int
    held: dict[str, int]

    @classmethod
    def of(cls, value: bytes) -> "ReportedProgress":
        """Read a progress record."""
        said = json.loads(value)
        pending = sum(said["pending"].values()) + said.get("pending_rest", {}).get("messages", 0)
        return cls(said["at"], said["fired_to"], said["positions"], pending, said.get("held") or {})


@dataclass(frozen=True)
class Snapshot:
    """What a run of the ledger knows of the workers; what events it has read were told later than this.

    Attributes:
        told: the last word of each partition.
        read: how far the inputs had been read a moment before. What was forwarded of that is in the forwards topic up
            to the end that was fixed in between.
        unsure: partitions of the forwards topic with a transaction that stayed open: nobody knows what is in it.
        inputs: the input topics, and `partitions` how many each has.
    """

    told: dict[int, ReportedProgress] = field(default_factory=dict)
    read: dict[str, Offsets] = field(default_factory=dict)
    unsure: list[int] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    partitions: int = 0

    @classmethod
    def of(cls, note: dict[str, Any] | None) -> "Snapshot":
        """Read what `note` gave."""
        if not note:
            return cls()
        told = {int(number): ReportedProgress(**said) for number, said in note["told"].items()}
        read = {topic: {int(number): at for number, at in there.items()} for topic, there in note["read"].items()}
        return cls(told, read, note["unsure"], tuple(note["inputs"]), note["partitions"])

    def note(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        return asdict(self)


class Listener:
    """Hears what is new on the progress topic: the last word of each partition."""

    def __init__(self, context: JobContext, known: dict[int, ReportedProgress], done: Offsets) -> None:
        """Go on at `done`, where `known` was the last that was heard."""
        self._context, self.told, self.done = context, dict(known), done
        self.topic = context.topic("progress")

    def listen(self) -> dict[int, ReportedProgress]:
        """Read on to the end; return the last word of each partition. Raises TopicMissing, KafkaUnreachable."""
        kafka, spark = self._context.kafka, self._context.spark
        ends = kafka.ends(spark, self.topic)[self.topic]
        if ends != self.done:
            records = kafka.read(spark, self.topic, self.done, ends).where("value is not null")
            last = records.groupBy("key").agg(F.max_by("value", F.struct("stamp_ms", "offset")).alias("value"))
            self.told |= {int(row["key"]): ReportedProgress.of(bytes(row["value"])) for row in last.collect()}
            self.done = ends
        return dict(self.told)


def positions(told: dict[int, ReportedProgress], topics: Iterable[str]) -> dict[str, Offsets]:
    """Return how far each of `topics` had been read, by partition; without those of which no worker has told."""
    return {
        topic: {number: said.positions[topic] for number, said in told.items() if topic in said.positions}
        for topic in topics
    }


def looked_up(pairs: Mapping[int, int] | Mapping[str, int], key: Column) -> Column:
    """Return the number of a key, null if it has none: a few thousand pairs make no table worth a join."""
    if not pairs:
        return F.lit(None).cast("long")
    return F.create_map(*(F.lit(each) for pair in pairs.items() for each in pair))[key].cast("long")
