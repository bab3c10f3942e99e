"""Compares the pending messages of the ledger with those that the workers report."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.ledger.progress import Snapshot, looked_up
from pipeline.ledger.tables import ACCEPTED, OUTCOMES

if TYPE_CHECKING:
    from pipeline.lake import Lake

#: Events are written before the change that they report, and workers' clocks differ a little.
_SLACK_MS = 10_000


@dataclass(frozen=True)
class Holding:
    """A partition's pending messages by the ledger and by its worker's report, and the changes between the two."""

    partition: int
    by_ledger: int
    by_worker: int
    in_flight: int

    @property
    def agrees(self) -> bool:
        """Whether the changes in flight explain the difference."""
        return abs(self.by_ledger - self.by_worker) <= self.in_flight


def holdings(lake: "Lake", waiting: DataFrame, lost: DataFrame) -> list[Holding]:
    """Return a comparison for each partition with a report; `lost` (sources) are not pending in the ledger."""
    snapshot = Snapshot.of(lake.head.notes.get("snapshot"))
    there = waiting.join(lost, "source", "left_anti").groupBy("partition").count()
    by_ledger = {row["partition"]: row["count"] for row in there.collect()}
    between = {row["partition"]: row["count"] for row in _in_flight(lake, snapshot).collect()}
    return [
        Holding(number, by_ledger.get(number, 0), report.pending, between.get(number, 0))
        for number, report in sorted(snapshot.reports.items())
    ]


def _in_flight(lake: "Lake", snapshot: Snapshot) -> DataFrame:
    """Return the number of acceptances and endings since shortly before each partition's last report."""
    since = {number: report.at - _SLACK_MS for number, report in snapshot.reports.items()}
    began = lake.read("accepted", ACCEPTED).select("partition", "at_ms")
    ended = lake.read("outcomes", OUTCOMES).select("partition", "at_ms")
    changes = began.unionByName(ended).where(F.col("at_ms") >= min(since.values(), default=0))
    return changes.where(F.col("at_ms") >= looked_up(since, F.col("partition"))).groupBy("partition").count()
