"""One run of the ledger: reads the topics' new records, in an order in which no message can seem lost that is not.

The ends of the inputs are fixed first and the end of the events last, so each request in the ledger has had time to
leave its events. In between, the run reads the workers' progress, fixes the end of the forwards, and reads the progress
again. A request that was read by the first progress is either done or among those forwards; the second progress shows
which forwards have been read. docs/decisions/0026 has the reasons.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.context import JobContext
from pipeline.kafka import Offsets, new_records
from pipeline.lake import Lake
from pipeline.ledger import records
from pipeline.ledger.lateness import histogram
from pipeline.ledger.progress import Listener, Snapshot, positions
from pipeline.ledger.tables import EVENT_TABLES, table_of
from pipeline.persisted import persisted
from punctual.contract.dialects.dialects import NATIVE

#: Rows in a file of a run; compaction writes larger ones.
_ROWS = 250_000
#: A worker's transaction takes milliseconds, and the broker aborts it after some seconds.
_OPEN_S, _LOOK_S = 5.0, 0.1


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
        self._added: dict[str, DataFrame] = {}
        self._ends: dict[str, Offsets] = {}

    def take_in(self, dialects: Mapping[str, str], *, values: bool) -> dict[str, int]:
        inputs = tuple(dialects)
        seen = self._requests(dialects, values=values)
        snapshot = self._listen(inputs)
        topic = self._context.topic("events")
        new, done = self._new(topic), self._done(topic)
        notes = {"snapshot": snapshot.note(), "whole_since": self._whole_since(topic, done)}
        if self._ends[topic] == done:
            self._lake.commit(self._added, self._ends, notes, replaced={"forwarded"})
            return {"requests": _count(seen)}
        with persisted(records.events(new)) as events:
            counts, notes["renumbered"] = self._sort_out(events, inputs)
            self._lake.commit(self._added, self._ends, notes, replaced={"forwarded"})
        return {"requests": _count(seen), **counts}

    def _done(self, topic: str) -> Offsets:
        return self._lake.head.positions.get(topic, {})

    def _new(self, topic: str) -> DataFrame:
        """Fix the end of a topic, and return its new records."""
        new, ends = new_records(self._kafka, self._spark, topic, self._done(topic), accept_gap=self._accept_gap)
        self._ends[topic] = ends
        return new

    def _requests(self, dialects: Mapping[str, str], *, values: bool) -> Observation | None:
        """Add the new requests of all inputs; return the observation that counts them when they are written."""
        rows: DataFrame | None = None
        about = 0  # an estimate for the number of files, because markers of transactions take offsets too
        for topic, dialect in dialects.items():
            more = records.requests(self._new(topic), values=values, dialect=dialect)
            rows = more if rows is None else rows.unionByName(more)
            about += sum(self._ends[topic].values()) - sum(self._done(topic).values())
        if rows is None or not about:
            return None
        seen = Observation("requests")
        counted = rows.coalesce(1 + about // _ROWS).observe(seen, F.count(F.lit(1)).alias("count"))
        self._added["requests"] = counted
        return seen

    def _listen(self, inputs: tuple[str, ...]) -> Snapshot:
        topic = self._context.topic("progress")
        known = Snapshot.of(self._lake.head.notes.get("snapshot"))
        listener = Listener(self._context, known.reports, self._done(topic))
        read = positions(listener.listen(), inputs)
        ends, unsure = self._forwards_end()
        reports = listener.listen()
        self._ends[topic] = listener.done
        self._forwarded(positions(reports, [self._context.topic("forwards")]), ends)
        return Snapshot(reports, read, unsure, inputs, len(self._ends[inputs[0]]))

    def _forwards_end(self) -> tuple[Offsets, list[int]]:
        """Fix the forwards' ends after all present records; return the ends, and partitions with open transactions."""
        topic, until = self._context.topic("forwards"), time.monotonic() + _OPEN_S
        there = self._kafka.ends(self._spark, topic, committed=False)[topic]
        while True:
            ends = self._kafka.ends(self._spark, topic)[topic]
            unsure = [number for number, end in ends.items() if end < there[number]]
            if not unsure or time.monotonic() > until:
                return ends, unsure
            time.sleep(_LOOK_S)

    def _forwarded(self, read: dict[str, Offsets], ends: Offsets) -> None:
        """Add the ids of forwards that the owners of their home partitions have not read."""
        ((topic, there),) = read.items()
        begins = self._kafka.begins(self._spark, topic)[topic]
        begin = {number: min(max(there.get(number, 0), begins[number]), end) for number, end in ends.items()}
        if begin != ends:
            waiting = self._kafka.read(self._spark, topic, begin, ends)
            self._added["forwarded"] = waiting.select(F.col("key").cast("string").alias("id")).distinct().coalesce(1)

    def _whole_since(self, topic: str, done: Offsets) -> int:
        """Return the time (epoch ms) since which no event is missing: Kafka deleted some earlier ones unread."""
        whole = int(self._lake.head.notes.get("whole_since", 0))
        begins, ends = self._kafka.begins(self._spark, topic)[topic], self._ends[topic]
        gap = {number: begin for number, begin in begins.items() if begin > done.get(number, 0)}
        if not gap:
            return whole
        some = {number: min(begin + 1_000, ends[number]) for number, begin in gap.items()}
        first = self._kafka.read(self._spark, topic, gap, some).groupBy("partition").agg(F.min("stamp_ms").alias("at"))
        first_ms = {row["partition"]: row["at"] for row in first.collect()}
        now = time.time_ns() // 1_000_000
        return max(whole, *(int(first_ms.get(number, now)) for number in gap))

    def _sort_out(self, events: DataFrame, inputs: tuple[str, ...]) -> tuple[dict[str, int], list[str]]:
        """Add each event to its table; return the number of each kind, and the inputs that were created again.

        The sources of such an input have offsets beyond its present end, so they cannot be matched to its records
        (DELAY_ACCEPT_LOSS).
        """
        of, _, offset = records.place(F.col("source"))
        last = [F.max(F.when(of == topic, offset)).alias(topic) for topic in inputs]
        kinds = {row["event"]: row for row in events.groupBy("event").agg(F.count("*").alias("rows"), *last).collect()}
        for table, columns in EVENT_TABLES.items():
            here = [kind for kind in kinds if table_of(kind) == table]
            if here:
                rows = events.where(F.col("event").isin(here)).select(columns.names)
                self._added[table] = rows.coalesce(1 + sum(kinds[kind]["rows"] for kind in here) // _ROWS)
        if "delivered" in kinds:
            self._added["lateness"] = histogram(events).coalesce(1)
        ends, accepted = self._kafka.ends(self._spark, *inputs), kinds.get("accepted")
        beyond = {topic for topic in inputs if accepted and (accepted[topic] or 0) >= max(1, *ends[topic].values())}
        known = set(self._lake.head.notes.get("renumbered", ()))
        return {kind: int(row["rows"]) for kind, row in kinds.items()}, sorted(known | beyond)


def _count(seen: Observation | None) -> int:
    return 0 if seen is None else int(seen.get["count"])
