"""Compares the pending messages of the ledger with those that the workers report."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import schema
from pipeline.ledger.progress import Snapshot, looked_up

if TYPE_CHECKING:
    from pipeline.lake import Lake

_CHANGE = schema(partition="int", at_ms="long")
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


def holdings(lake: "Lake", waiting: DataFrame, lost: DataFrame | None) -> list[Holding]:
    """Return a comparison for each partition with a report; `lost` lives are not pending in the ledger."""
    snapshot = Snapshot.of(lake.head.notes.get("snapshot"))
    there = waiting if lost is None else waiting.join(lost, "life", "left_anti")
    by_ledger = {row["partition"]: row["count"] for row in there.groupBy("partition").count().collect()}
    between = {row["partition"]: row["count"] for row in _in_flight(lake, snapshot).collect()}
    return [
        Holding(number, by_ledger.get(number, 0), report.pending, between.get(number, 0))
        for number, report in sorted(snapshot.reports.items())
    ]


def _in_flight(lake: "Lake", snapshot: Snapshot) -> DataFrame:
    """Return the number of acceptances and endings since shortly before each partition's last report."""
    since = {number: report.at - _SLACK_MS for number, report in snapshot.reports.items()}
    recent = f"at >= timestamp_millis({min(since.values(), default=0)})"
    changes = lake.read(("accepted", "outcomes"), _CHANGE, recent, whole=True)
    return changes.where(F.col("at_ms") >= looked_up(since, F.col("partition"))).groupBy("partition").count()
