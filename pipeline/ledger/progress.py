"""The workers' progress, as reported before the end of the events was fixed."""

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
    """A partition's last progress report. Times are epoch milliseconds.

    Attributes:
        at: when the worker wrote the report.
        fired_to: all messages due up to then, from records before `positions`, have ended.
        positions: the offsets up to which each input has been read.
        pending: the number of pending messages.
        held: the oldest due time of each destination that accepts no messages.
    """

    at: int
    fired_to: int
    positions: dict[str, int]
    pending: int
    held: dict[str, int]

    @classmethod
    def of(cls, value: bytes) -> "ReportedProgress":
        """Decode the value of a progress record."""
        report = json.loads(value)
        pending = sum(report["pending"].values()) + report.get("pending_rest", {}).get("messages", 0)
        return cls(report["at"], report["fired_to"], report["positions"], pending, report.get("held") or {})


@dataclass(frozen=True)
class Snapshot:
    """The workers' progress as a run of the ledger has read it, before it fixed the end of the events.

    Attributes:
        reports: the last report of each partition.
        read: the positions of the inputs a moment before. Forwards of earlier records are before the end of the
            forwards topic that was fixed in between.
        unsure: partitions of the forwards topic with a transaction that stayed open, whose records are unknown.
        inputs: the input topics.
        partitions: the number of partitions of each input.
    """

    reports: dict[int, ReportedProgress] = field(default_factory=dict)
    read: dict[str, Offsets] = field(default_factory=dict)
    unsure: list[int] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    partitions: int = 0

    @classmethod
    def of(cls, note: dict[str, Any] | None) -> "Snapshot":
        """Return the snapshot in a `note`; an empty one for None."""
        if not note:
            return cls()
        reports = {int(number): ReportedProgress(**report) for number, report in note["told"].items()}
        read = {topic: {int(number): at for number, at in offsets.items()} for topic, offsets in note["read"].items()}
        return cls(reports, read, note["unsure"], tuple(note["inputs"]), note["partitions"])

    def note(self) -> dict[str, Any]:
        """Return the snapshot as a value for JSON."""
        note = asdict(self)
        return {"told": note.pop("reports"), **note}


class Listener:
    """Reads the progress topic and keeps the last report of each partition."""

    def __init__(self, context: JobContext, reports: dict[int, ReportedProgress], positions: Offsets) -> None:
        """Continue at the offsets `positions`, up to which `reports` are the last reports."""
        self._context, self.reports, self.positions = context, dict(reports), positions
        self.topic = context.topic("progress")

    def listen(self) -> dict[int, ReportedProgress]:
        """Read to the end of the topic; return each partition's last report. Raises TopicMissing, KafkaUnreachable."""
        kafka, spark = self._context.kafka, self._context.spark
        ends = kafka.ends(spark, self.topic)[self.topic]
        if ends != self.positions:
            records = kafka.read(spark, self.topic, self.positions, ends).where("value is not null")
            last = records.groupBy("key").agg(F.max_by("value", F.struct("stamp_ms", "offset")).alias("value"))
            self.reports |= {int(row["key"]): ReportedProgress.of(bytes(row["value"])) for row in last.collect()}
            self.positions = ends
        return dict(self.reports)


def positions(reports: dict[int, ReportedProgress], topics: Iterable[str]) -> dict[str, Offsets]:
    """Return the reported positions of each of `topics`, by partition; partitions without a report are left out."""
    return {
        topic: {number: report.positions[topic] for number, report in reports.items() if topic in report.positions}
        for topic in topics
    }


def looked_up(pairs: Mapping[int, int] | Mapping[str, int], key: Column) -> Column:
    """Return the number of a key, or null: for a few thousand pairs a map is faster than a join."""
    if not pairs:
        return F.lit(None).cast("long")
    return F.create_map(*(F.lit(each) for pair in pairs.items() for each in pair))[key].cast("long")


def position_of(positions: "Mapping[str, Offsets]", topic: str, partition: str) -> Column:
    """Return the position of the partition that two columns name, or null if there is none."""
    pairs = {f"{name}-{number}": offset for name, offsets in positions.items() for number, offset in offsets.items()}
    return looked_up(pairs, F.concat_ws("-", topic, partition))
