"""Finds lost messages: those that the workers have passed by their reports, without an ending."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import first_life, life_of_request, schema, source_text
from pipeline.errors import EventsMissing
from pipeline.home import home
from pipeline.ledger import created_again
from pipeline.ledger.lives import MINUTE_MS, pending
from pipeline.ledger.progress import Snapshot, looked_up, position_of
from pipeline.ledger.records import place
from pipeline.ledger.tables import EVENT_TABLES, FORWARDED, SCHEDULES

if TYPE_CHECKING:
    from pipeline.lake import Lake

LOST = ("source", "id", "to", "due_ms", "partition", "why")
_NEVER_ENDED = "accepted, and past its due time on the worker, but it never ended"
_NO_EVENT = "read by the worker, but it has no event"
_HEARD = schema(life="life", at_ms="long")


@dataclass(frozen=True)
class Judge:
    """Finds lost messages in a ledger as of its last run.

    Attributes:
        lake: the ledger.
        grace_ms: how far the worker must be past a message's due time.
        since_ms: requests before this time (epoch ms) are left out.
    """

    lake: "Lake"
    grace_ms: int = MINUTE_MS
    since_ms: int = 0

    @cached_property
    def snapshot(self) -> Snapshot:
        """The workers' progress that the ledger's last run has read."""
        return Snapshot.of(self.lake.head.notes.get("snapshot"))

    def lost(self, waiting: DataFrame | None = None) -> DataFrame:
        """Return the lost messages among `waiting` (pending by the ledger) and requests without any event.

        The columns are life and `LOST`.
        """
        never_ended = self.never_ended(pending(self.lake, self.since_ms) if waiting is None else waiting)
        return never_ended.unionByName(self.no_event())

    def require_events(self) -> None:
        """Raise EventsMissing if the ledger has no events at all."""
        if not self.lake.has("accepted", "others"):
            raise EventsMissing("there are no events at all, so nothing can be judged. Check --app-id.")

    def never_ended(self, waiting: DataFrame) -> DataFrame:
        """Return the messages of `waiting` that their worker has read and passed without an ending."""
        fired_to = looked_up(
            {number: report.fired_to for number, report in self.snapshot.reports.items()}, F.col("partition")
        )
        overdue = F.col("due_ms") + self.grace_ms < fired_to
        read = self._read(F.col("source")) & self._read(F.coalesce("by", "source"))
        lost = waiting.where(overdue & read).withColumn("why", F.lit(_NEVER_ENDED))
        # Messages that may still be among the forwards are not judged: their sources come from another partition.
        return lost.join(self._forwarded(), "id", "left_anti").select("life", *LOST)

    def no_event(self) -> DataFrame:
        """Return schedules that workers had read by their last report, and that have no event.

        Schedules before the first event in the ledger, and those of inputs that were created again, are not judged.
        """
        snapshot = self.snapshot
        silent = self.silent.where(F.col("offset") < self.read_to())
        lives_in = F.when(F.col("id").isNull(), F.col("partition")).otherwise(
            home(F.coalesce("id", F.lit("")), snapshot.inputs, snapshot.partitions)
        )
        source = source_text(F.col("life"))
        placed = silent.select(
            "life",
            source.alias("source"),
            F.coalesce("id", source).alias("id"),
            "to",
            _due(),
            lives_in.alias("home"),
            "partition",
            F.lit(_NO_EVENT).alias("why"),
        )
        sure = (F.col("home") == F.col("partition")) | ~F.col("home").isin(snapshot.unsure)
        return (
            placed.where(sure)
            .join(self._forwarded(), "id", "left_anti")
            .select("life", "source", "id", "to", "due_ms", F.col("home").alias("partition"), "why")
        )

    def unknown(self, waiting: DataFrame, now_ms: int) -> Counter[int]:
        """Return the number of overdue messages in each partition that cannot be judged.

        They are in partitions without a reported position: a worker with a new table reports none until it has read a
        record of the partition. `waiting` are the messages that are pending by the ledger.
        """
        snapshot, reported = self.snapshot, self._positions()
        partitions = (f"{topic}-{number}" for topic in snapshot.inputs for number in range(snapshot.partitions))
        if all(name in reported for name in partitions):
            return Counter()
        begun = waiting.where(self._is_unknown(F.col("source")) | self._is_unknown(F.coalesce("by", "source")))
        overdue = begun.select("partition", F.coalesce("due_ms", "accepted_ms").alias("due_ms"))
        silent = self.silent.where(self.read_to().isNull()).select("partition", F.coalesce(_due(), "stamp_ms"))
        rows = overdue.union(silent).where(F.col("due_ms") + self.grace_ms < now_ms)
        return Counter({row["partition"]: row["count"] for row in rows.groupBy("partition").count().collect()})

    @cached_property
    def silent(self) -> DataFrame:
        """The schedules (life, `SCHEDULES`) that have no event of any kind."""
        whole_ms = int(self.lake.head.notes.get("whole_since", 0))
        since_ms = max(self.since_ms, whole_ms + MINUTE_MS if whole_ms else 0)
        renumbered = F.col("topic").isin(created_again(self.lake))
        wanted = (F.col("op") == "schedule") & (F.col("stamp_ms") >= since_ms) & ~renumbered
        schedules = self.lake.read("requests", SCHEDULES).where(wanted)
        # A single number sorts much faster than texts with a common prefix.
        numbered = schedules.withColumn("life", life_of_request()).withColumn("hash", F.xxhash64("life"))
        return numbered.join(self._heard(since_ms), ["hash", "life"], "left_anti")

    def read_to(self) -> Column:
        """Return the reported position of a request's partition; null if no worker has reported one."""
        return position_of(self.snapshot.read, "topic", "partition")

    def _heard(self, since_ms: int) -> DataFrame:
        """Return the lives of requests that have an event or were rescued, and their hashes."""
        events = self.lake.read(("rescued", *EVENT_TABLES), _HEARD)
        since = F.col("at_ms") >= since_ms - MINUTE_MS  # the worker's clock and the brokers' differ
        lives = events.where(since).select(first_life(F.col("life")).alias("life"))
        return lives.withColumn("hash", F.xxhash64("life"))

    def _read(self, where: Column) -> Column:
        """Return the condition that the owner of the home partition has read the request or command at a source.

        A record from another partition was forwarded, and has been read unless it is still among the forwards.
        """
        _, _, offset = place(where)
        read = offset < self._position(where)
        return F.when(self._is_direct(where), read).otherwise(~F.col("partition").isin(self.snapshot.unsure))

    def _is_unknown(self, where: Column) -> Column:
        """Return the condition that no worker has reported whether it has read the request or command at a source."""
        return self._is_direct(where) & self._position(where).isNull()

    def _is_direct(self, where: Column) -> Column:
        topic, number, _ = place(where)
        return topic.isin(list(self.snapshot.inputs)) & (number == F.col("partition"))

    def _position(self, where: Column) -> Column:
        topic, number, _ = place(where)
        return looked_up(self._positions(), F.concat_ws("-", topic, number))

    def _positions(self) -> dict[str, int]:
        """Return the reported positions, by `topic-partition`."""
        reports = self.snapshot.reports.items()
        return {f"{topic}-{number}": at for number, report in reports for topic, at in report.positions.items()}

    def _forwarded(self) -> DataFrame:
        rows = self.lake.read("forwarded", FORWARDED, whole=True)
        return rows.where(F.col("run") == self.lake.head.notes.get("forwarded", "")).select("id")


def _due() -> Column:
    """Return the due time of a request if it is written in digits; otherwise null."""
    after = F.col("stamp_ms") + F.col("after").try_cast("long")
    return F.coalesce(F.col("at").try_cast("long"), after).alias("due_ms")
