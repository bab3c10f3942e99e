"""What is lost: what the workers say they have dealt with, and never told an ending of."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.errors import EventsMissing
from pipeline.home import home
from pipeline.ledger.lives import MINUTE_MS, pending
from pipeline.ledger.progress import Snapshot, looked_up
from pipeline.ledger.records import place, request_of, source
from pipeline.ledger.tables import EVENT_TABLES, FORWARDED, REQUESTS, RESCUED

if TYPE_CHECKING:
    from pipeline.lake import Lake

LOST = ("source", "id", "to", "due_ms", "partition", "why")
_NEVER_ENDED = "accepted, and past its due time on the worker, but it never ended"
_NO_EVENT = "read by the worker, but it has no event"


@dataclass(frozen=True)
class Judge:
    """Tells what is lost, by a ledger as its last run left it.

    `grace_ms` is how much later than its due time the worker must be; `since_ms` leaves out what was asked before.
    """

    lake: "Lake"
    grace_ms: int = MINUTE_MS
    since_ms: int = 0

    @cached_property
    def snapshot(self) -> Snapshot:
        """What the workers had told when the ledger's last run heard them."""
        return Snapshot.of(self.lake.head.notes.get("snapshot"))

    def lost(self, waiting: DataFrame | None = None) -> DataFrame:
        """Return what is lost (`LOST`), among `waiting` (pending by the ledger) and requests without any event."""
        never_ended = self.never_ended(pending(self.lake, self.since_ms) if waiting is None else waiting)
        return never_ended.unionByName(self.no_event())

    def require_events(self) -> None:
        """Make sure that there is something to judge by. Raises EventsMissing."""
        if not self.lake.head.tables.keys() & {"accepted", "others"}:
            raise EventsMissing("there are no events at all, so nothing can be judged. Check --app-id.")

    def never_ended(self, waiting: DataFrame) -> DataFrame:
        """Return what of `waiting` the worker would hold no more, and cannot have yet to read."""
        fired_to = looked_up({number: told.fired_to for number, told in self.snapshot.told.items()}, F.col("partition"))
        overdue = F.col("due_ms") + self.grace_ms < fired_to
        read = self._read(F.col("source")) & self._read(F.coalesce("by", "source"))
        lost = waiting.where(overdue & read).withColumn("why", F.lit(_NEVER_ENDED))
        # Of what may still be among the forwards nothing is said: the sources of those come from another partition.
        return lost.join(self._forwarded(), "id", "left_anti").select(*LOST)

    def no_event(self) -> DataFrame:
        """Return schedules that had been read before the workers were heard, and have left no event whatever.

        Nothing is said of what came before the first event that the ledger knows, nor of inputs created again.
        """
        snapshot = self.snapshot
        silent = self._silent(F.col("offset") < self._read_to())
        lives_in = F.when(F.col("id").isNull(), F.col("partition")).otherwise(
            home(F.coalesce("id", "source"), snapshot.inputs, snapshot.partitions)
        )
        placed = silent.select(
            "source",
            F.coalesce("id", "source").alias("id"),
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
            .select("source", "id", "to", "due_ms", F.col("home").alias("partition"), "why")
        )

    def unknown(self, waiting: DataFrame, now_ms: int) -> Counter[int]:
        """Return how many messages of each partition are overdue, but cannot be judged.

        They are those of partitions of which no worker has reported a position: a worker that begins with a new table
        reports none until it has read a record there. `waiting` is what is pending by the ledger.
        """
        snapshot, reported = self.snapshot, self._positions()
        partitions = (f"{topic}-{number}" for topic in snapshot.inputs for number in range(snapshot.partitions))
        if all(name in reported for name in partitions):
            return Counter()
        begun = waiting.where(self._is_unknown(F.col("source")) | self._is_unknown(F.coalesce("by", "source")))
        overdue = begun.select("partition", F.coalesce("due_ms", "accepted_ms").alias("due_ms"))
        silent = self._silent(self._read_to().isNull()).select("partition", F.coalesce(_due(), "stamp_ms"))
        rows = overdue.union(silent).where(F.col("due_ms") + self.grace_ms < now_ms)
        return Counter({row["partition"]: row["count"] for row in rows.groupBy("partition").count().collect()})

    def _silent(self, wanted: Column) -> DataFrame:
        """Return the wanted schedules that have left no event in any table."""
        whole_ms = int(self.lake.head.notes.get("whole_since", 0))
        since_ms = max(self.since_ms, whole_ms + MINUTE_MS if whole_ms else 0)
        renumbered = F.col("topic").isin(list(self.lake.head.notes.get("renumbered", ())))
        schedules = (F.col("op") == "schedule") & (F.col("stamp_ms") >= since_ms) & ~renumbered
        return (
            self.lake.read("requests", REQUESTS)
            .where(schedules & wanted)
            .select("id", "to", "partition", "at", "after", "stamp_ms", source().alias("source"))
            .withColumn("hash", F.xxhash64("source"))  # numbers are sorted much faster than texts that begin alike
            .join(self._heard(since_ms).withColumn("hash", F.xxhash64("source")), ["hash", "source"], "left_anti")
        )

    def _read_to(self) -> Column:
        """Return how far the partition of a request had been read; null if no worker had reported that."""
        read = self.snapshot.read
        pairs = {f"{topic}-{number}": at for topic, there in read.items() for number, at in there.items()}
        return looked_up(pairs, F.concat_ws("-", "topic", "partition"))

    def _heard(self, since_ms: int) -> DataFrame:
        """Return the sources of requests that have left an event, or were sent again."""
        since = F.col("at_ms") >= since_ms - MINUTE_MS  # the worker's clock and the brokers' differ
        heard = self.lake.read("rescued", RESCUED).where(since).select("source")
        for table, columns in EVENT_TABLES.items():
            told = self.lake.read(table, columns).where(since)
            heard = heard.unionByName(told.select(request_of(F.col("source")).alias("source")))
        return heard

    def _read(self, where: Column) -> Column:
        """Return the condition that the home partition has read the request or command at a place.

        What comes from another partition was forwarded: it has been read unless it is still among the forwards.
        """
        _, _, offset = place(where)
        read = offset < self._position(where)
        return F.when(self._is_direct(where), read).otherwise(~F.col("partition").isin(self.snapshot.unsure))

    def _is_unknown(self, where: Column) -> Column:
        """Return the condition that no worker has told whether it has read the request or command at a place."""
        return self._is_direct(where) & self._position(where).isNull()

    def _is_direct(self, where: Column) -> Column:
        topic, number, _ = place(where)
        return topic.isin(list(self.snapshot.inputs)) & (number == F.col("partition"))

    def _position(self, where: Column) -> Column:
        topic, number, _ = place(where)
        return looked_up(self._positions(), F.concat_ws("-", topic, number))

    def _positions(self) -> dict[str, int]:
        """Return the positions that workers have reported, by topic and partition."""
        told = self.snapshot.told.items()
        return {f"{topic}-{number}": at for number, said in told for topic, at in said.positions.items()}

    def _forwarded(self) -> DataFrame:
        return self.lake.read("forwarded", FORWARDED)


def _due() -> Column:
    """Return the due time as far as it is in digits; null where it is written otherwise."""
    after = F.col("stamp_ms") + F.col("after").try_cast("long")
    return F.coalesce(F.col("at").try_cast("long"), after).alias("due_ms")
