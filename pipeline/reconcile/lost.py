"""What is lost: what the workers say they have dealt with, and never told an ending of."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.errors import EventsMissing
from pipeline.home import home
from pipeline.ledger.lives import MINUTE_MS, pending
from pipeline.ledger.progress import Snapshot, looked_up
from pipeline.ledger.records import place, source
from pipeline.ledger.tables import ACCEPTED, FORWARDED, OTHERS, REQUESTS, RESCUED

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

    @property
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
        whole_ms = int(self.lake.head.notes.get("whole_since", 0))
        since_ms = max(self.since_ms, whole_ms + MINUTE_MS if whole_ms else 0)
        renumbered = F.col("topic").isin(list(self.lake.head.notes.get("renumbered", ())))
        schedules = (F.col("op") == "schedule") & (F.col("stamp_ms") >= since_ms) & ~renumbered
        asked = self.lake.read("requests", REQUESTS).where(schedules)
        upto = {f"{topic}-{number}": at for topic, there in snapshot.read.items() for number, at in there.items()}
        silent = (
            asked.where(F.col("offset") < looked_up(upto, F.concat_ws("-", "topic", "partition")))
            .select("id", "to", "partition", "at", "after", "stamp_ms", source().alias("source"))
            .withColumn("hash", F.xxhash64("source"))  # numbers are sorted much faster than texts that begin alike
            .join(self._heard(since_ms).withColumn("hash", F.xxhash64("source")), ["hash", "source"], "left_anti")
        )
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

    def _heard(self, since_ms: int) -> DataFrame:
        """Return the sources that have left an event, or were sent again."""
        since = F.col("at_ms") >= since_ms - MINUTE_MS  # the worker's clock and the brokers' differ
        tables = (("accepted", ACCEPTED), ("others", OTHERS), ("rescued", RESCUED))
        accepted, others, rescued = (self.lake.read(*table).where(since).select("source") for table in tables)
        return accepted.unionByName(others).unionByName(rescued)

    def _read(self, where: Column) -> Column:
        """Return the condition that the home partition has read the request or command at a place.

        What comes from another partition was forwarded: it has been read unless it is still among the forwards.
        """
        topic, number, offset = place(where)
        direct = topic.isin(list(self.snapshot.inputs)) & (number == F.col("partition"))
        positions = {
            f"{topic}-{number}": at
            for number, told in self.snapshot.told.items()
            for topic, at in told.positions.items()
        }
        position = looked_up(positions, F.concat_ws("-", topic, number))
        return F.when(direct, offset < position).otherwise(~F.col("partition").isin(self.snapshot.unsure))

    def _forwarded(self) -> DataFrame:
        return self.lake.read("forwarded", FORWARDED)


def _due() -> Column:
    """Return the due time as far as it is in digits; null where it is written otherwise."""
    after = F.col("stamp_ms") + F.col("after").try_cast("long")
    return F.coalesce(F.col("at").try_cast("long"), after).alias("due_ms")
