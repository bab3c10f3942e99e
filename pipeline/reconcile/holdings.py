"""What is pending by the ledger beside what the workers say they hold."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.ledger.progress import Snapshot, looked_up
from pipeline.ledger.tables import ACCEPTED, OUTCOMES

if TYPE_CHECKING:
    from pipeline.lake import Lake

#: Events are told before the change that they are about, and workers' clocks differ a little.
_SLACK_MS = 10_000


@dataclass(frozen=True)
class Holding:
    """A partition: what is pending by the ledger, what its worker told, and how many changes lie between the two."""

    partition: int
    by_ledger: int
    told: int
    in_flight: int

    @property
    def agrees(self) -> bool:
        """Whether what is in flight explains the difference."""
        return abs(self.by_ledger - self.told) <= self.in_flight


def holdings(lake: "Lake", waiting: DataFrame, lost: DataFrame) -> list[Holding]:
    """Compare, for each partition whose worker has told of its progress, what is pending and not `lost` (sources)."""
    snapshot = Snapshot.of(lake.head.notes.get("snapshot"))
    there = waiting.join(lost, "source", "left_anti").groupBy("partition").count()
    by_ledger = {row["partition"]: row["count"] for row in there.collect()}
    between = {row["partition"]: row["count"] for row in _in_flight(lake, snapshot).collect()}
    return [
        Holding(number, by_ledger.get(number, 0), said.pending, between.get(number, 0))
        for number, said in sorted(snapshot.told.items())
    ]


def _in_flight(lake: "Lake", snapshot: Snapshot) -> DataFrame:
    """Count beginnings and endings since shortly before each partition's last word."""
    since = {number: said.at - _SLACK_MS for number, said in snapshot.told.items()}
    began = lake.read("accepted", ACCEPTED).select("partition", "at_ms")
    ended = lake.read("outcomes", OUTCOMES).select("partition", "at_ms")
    changes = began.unionByName(ended).where(F.col("at_ms") >= min(since.values(), default=0))
    return changes.where(F.col("at_ms") >= looked_up(since, F.col("partition"))).groupBy("partition").count()
