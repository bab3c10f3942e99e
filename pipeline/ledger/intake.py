"""One run of the ledger: reads the topics' new records, in an order in which no message can seem lost that is not.

The ends of the inputs are fixed first and the end of the events last, so each request in the ledger has had time to
leave its events. In between, the run reads the workers' progress, fixes the end of the forwards, and reads the progress
again. A request that was read by the first progress is either done or among those forwards; the second progress shows
which forwards have been read. docs/decisions/0026 has the reasons.
"""

import time
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import get_args

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.context import JobContext
from pipeline.kafka import Offsets, in_tasks, new_records
from pipeline.lake import Lake
from pipeline.ledger import records
from pipeline.ledger.lives import created_again
from pipeline.ledger.progress import Listener, Snapshot, positions
from pipeline.ledger.tables import table_of
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.events import Kind

#: A worker's transaction takes milliseconds, and the broker aborts it after some seconds.
_OPEN_S, _LOOK_S = 5.0, 0.1
_KINDS = (*get_args(Kind), "unreadable")


def take_in(
    context: JobContext,
    lake: Lake,
    inputs: Mapping[str, str] = MappingProxyType({}),
    *,
    values: bool = True,
    accept_gap: bool = False,
) -> dict[str, int]:
    """Add the topics' new records to the ledger in one commit; return the number of rows of each kind.

    Args:
        context: the installation.
        lake: its ledger.
        inputs: the dialects of its input topics, without the request topic.
        values: keep key, value and headers of requests, so that `rescue` works after the topic's retention.
        accept_gap: continue although Kafka has deleted records that were never read.

    Raises DataLost, LakeBusy, TopicMissing, KafkaUnreachable.
    """
    every = {context.topic("requests"): NATIVE.name, **inputs}
    return _Run(context, lake, accept_gap=accept_gap).take_in(every, values=values)


class _Run:
    def __init__(self, context: JobContext, lake: Lake, *, accept_gap: bool) -> None:
        self._context, self._lake, self._accept_gap = context, lake, accept_gap
        self._kafka, self._spark = context.kafka, context.spark
        self._id = uuid.uuid4().hex[:12]
        self._added: dict[str, DataFrame] = {}
        self._observations: list[Observation] = []
        self._ends: dict[str, Offsets] = {}

    def take_in(self, dialects: Mapping[str, str], *, values: bool) -> dict[str, int]:
        inputs = tuple(dialects)
        self._requests(dialects, values=values)
        snapshot = self._listen(inputs)
        topic = self._context.topic("events")
        whole_since = self._events(topic)
        # Every event that was read is about a request before these ends.
        ends = self._kafka.ends(self._spark, *inputs)
        notes = {
            "snapshot": snapshot.note(),
            "whole_since": whole_since,
            "renumbered": created_again(self._lake),
            "input_ends": {name: max(1, *offsets.values()) for name, offsets in ends.items()},
            "forwarded": self._id,
            "runs": self._lake.head.notes.get("runs", 0) + 1,
        }
        self._lake.commit(self._added, self._ends, notes)
        counts = {name: int(count) for observation in self._observations for name, count in observation.get.items()}
        return {"requests": 0} | {name: count for name, count in counts.items() if count}

    def _positions(self, topic: str) -> Offsets:
        return self._lake.head.positions.get(topic, {})

    def _new(self, topic: str) -> DataFrame:
        """Fix the end of a topic, and return its new records."""
        new, ends = new_records(self._kafka, self._spark, topic, self._positions(topic), accept_gap=self._accept_gap)
        self._ends[topic] = ends
        return new

    def _requests(self, dialects: Mapping[str, str], *, values: bool) -> None:
        """Add the new requests of all inputs."""
        rows: DataFrame | None = None
        for topic, dialect in dialects.items():
            new_rows = records.requests(self._new(topic), values=values, dialect=dialect)
            rows = new_rows if rows is None else rows.unionByName(new_rows)
        if rows is not None:
            self._add("requests", rows, dialects, {"requests": F.count(F.lit(1))})

    def _events(self, topic: str) -> int:
        """Add the new events; return the time since which no event is missing."""
        rows = records.events(self._new(topic)).withColumn("kind", table_of(F.col("event")))
        self._add("events", rows, [topic], {kind: F.count_if(F.col("event") == kind) for kind in _KINDS})
        return self._whole_since(topic, self._positions(topic))

    def _add(self, name: str, rows: DataFrame, topics: Iterable[str], counts: Mapping[str, Column]) -> None:
        """Add rows of topics, which are counted when they are written, unless the topics have no new records."""
        # An estimate for the number of files, because markers of transactions take offsets too.
        about = sum(sum(self._ends[topic].values()) - sum(self._positions(topic).values()) for topic in topics)
        if about:
            self._observations.append(Observation(name))
            counted = [count.alias(kind) for kind, count in counts.items()]
            self._added[name] = in_tasks(rows, about).observe(self._observations[-1], *counted)

    def _listen(self, inputs: tuple[str, ...]) -> Snapshot:
        topic = self._context.topic("progress")
        snapshot_before = Snapshot.of(self._lake.head.notes.get("snapshot"))
        listener = Listener(self._context, snapshot_before.reports, self._positions(topic))
        read = positions(listener.listen(), inputs)
        ends, unsure = self._forwards_end()
        reports = listener.listen()
        self._ends[topic] = listener.positions
        self._forwarded(positions(reports, [self._context.topic("forwards")]), ends)
        return Snapshot(reports, read, unsure, inputs, len(self._ends[inputs[0]]))

    def _forwards_end(self) -> tuple[Offsets, list[int]]:
        """Fix the forwards' ends after all present records; return the ends, and partitions with open transactions."""
        topic, until = self._context.topic("forwards"), time.monotonic() + _OPEN_S
        written_ends = self._kafka.ends(self._spark, topic, committed=False)[topic]
        while True:
            ends = self._kafka.ends(self._spark, topic)[topic]
            unsure = [number for number, end in ends.items() if end < written_ends[number]]
            if not unsure or time.monotonic() > until:
                return ends, unsure
            time.sleep(_LOOK_S)

    def _forwarded(self, read: dict[str, Offsets], ends: Offsets) -> None:
        """Add the ids of forwards that the owners of their home partitions have not read."""
        ((topic, read_to),) = read.items()
        begins = self._kafka.begins(self._spark, topic)[topic]
        begin = {number: min(max(read_to.get(number, 0), begins[number]), end) for number, end in ends.items()}
        if begin != ends:
            waiting = self._kafka.read(self._spark, topic, begin, ends)
            ids = waiting.select(F.col("key").cast("string").alias("id")).distinct().coalesce(1)
            self._added["forwarded"] = ids.withColumn("run", F.lit(self._id))

    def _whole_since(self, topic: str, positions: Offsets) -> int:
        """Return the time (epoch ms) since which no event is missing: Kafka deleted some earlier ones unread."""
        since_ms = int(self._lake.head.notes.get("whole_since", 0))
        begins, ends = self._kafka.begins(self._spark, topic)[topic], self._ends[topic]
        gap = {number: begin for number, begin in begins.items() if begin > positions.get(number, 0)}
        if not gap:
            return since_ms
        some = {number: min(begin + 1_000, ends[number]) for number, begin in gap.items()}
        first = self._kafka.read(self._spark, topic, gap, some).groupBy("partition").agg(F.min("stamp_ms").alias("at"))
        first_ms = {row["partition"]: row["at"] for row in first.collect()}
        now = time.time_ns() // 1_000_000
        return max(since_ms, *(int(first_ms.get(number, now)) for number in gap))
