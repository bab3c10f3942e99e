"""The data of a report, read from the ledger: a few hundred numbers, however large the ledger is."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.ledger.lateness import histogram
from pipeline.ledger.lives import pending
from pipeline.ledger.tables import OTHERS, OUTCOMES
from pipeline.persisted import persisted
from pipeline.reconcile.lost import Judge
from pipeline.reconcile.verdict import Verdict

if TYPE_CHECKING:
    from pipeline.lake import Lake

#: Widths of the columns of a chart over time: minutes to years.
_STEPS_MS = [
    minutes * 60_000
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 10_080, 20_160, 43_200, 129_600)
]
_COLUMNS = 96
#: Maximum numbers of destinations and reasons in a chart, so that their colours stay distinguishable.
DESTINATIONS, REASONS = 10, 12

Bins = Mapping[int, int]
Value = TypeVar("Value")


@dataclass(frozen=True)
class OverTime(Generic[Value]):
    """Values by the beginning (epoch ms) of their column; each column is `step_ms` wide."""

    step_ms: int
    columns: Mapping[int, Value]


@dataclass(frozen=True)
class Findings:
    """The data of a report.

    Attributes:
        title: the installation.
        at_ms: when the ledger was last updated.
        verdict: the result of the reconciliation.
        late: counts of deliveries by bin of lateness, over the time of delivery.
        late_to: the same counts by destination, the one with the most deliveries first.
        due: counts of pending messages by destination, over their due times.
        reasons: counts of failures by event and reason, the most frequent first.
    """

    title: str
    at_ms: int
    verdict: Verdict
    late: OverTime[Bins]
    late_to: Mapping[str, Bins]
    due: OverTime[Mapping[str, int]]
    reasons: Sequence[tuple[tuple[str, str], int]]

    @classmethod
    def of(cls, judge: Judge, now_ms: int) -> Self:
        """Return the findings of a judge's ledger."""
        lake = judge.lake
        late, late_to = _lateness(lake)
        verdict = Verdict.of(judge, now_ms)
        return cls(lake.head.source, lake.head.at_ms, verdict, late, late_to, _due(lake), _reasons(lake))


def _lateness(lake: "Lake") -> tuple[OverTime[Bins], dict[str, Bins]]:
    with persisted(histogram(lake.read("outcomes", OUTCOMES))) as table:
        step_ms = _step(table, "minute_ms")
        counted = table.groupBy("to", _column("minute_ms", step_ms), "bin").agg(F.sum("count").alias("n")).collect()
    over_time: defaultdict[int, Counter[int]] = defaultdict(Counter)
    by_destination: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for row in counted:
        over_time[row["column"]][row["bin"]] += row["n"]
        by_destination[row["to"]][row["bin"]] += row["n"]
    most = sorted(by_destination, key=lambda to: -by_destination[to].total())[:DESTINATIONS]
    return OverTime(step_ms, over_time), {to: by_destination[to] for to in most}


def _due(lake: "Lake") -> OverTime[Mapping[str, int]]:
    with persisted(pending(lake)) as waiting:
        step_ms = _step(waiting, "due_ms")
        counted = waiting.groupBy("to", _column("due_ms", step_ms)).agg(F.count("*").alias("n")).collect()
    totals: Counter[str] = Counter()
    for row in counted:
        totals[row["to"]] += row["n"]
    named = {to for to, _ in totals.most_common(DESTINATIONS - 1)}
    columns: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for row in counted:
        columns[row["column"]][row["to"] if row["to"] in named else "others"] += row["n"]
    return OverTime(step_ms, columns)


def _reasons(lake: "Lake") -> list[tuple[tuple[str, str], int]]:
    ended = lake.read("outcomes", OUTCOMES).where("event in ('rejected', 'dropped')")
    refused = lake.read("others", OTHERS).where("event = 'refused'")
    failed = ended.unionByName(refused, allowMissingColumns=True).select("event", "reason", "source").distinct()
    counted = failed.groupBy("event", "reason").count()
    rows = counted.orderBy(F.desc("count")).limit(REASONS).collect()
    return [((row["event"], row["reason"] or "?"), row["count"]) for row in rows]


def _step(rows: DataFrame, at_ms: str) -> int:
    """Return the width of columns with which all rows fit into a chart."""
    span = rows.agg((F.max(at_ms) - F.min(at_ms)).alias("span")).first()
    minimum_ms = ((span["span"] if span else None) or 0) / _COLUMNS
    return next((step for step in _STEPS_MS if step >= minimum_ms), _STEPS_MS[-1])


def _column(at_ms: str, step_ms: int) -> Column:
    return (F.col(at_ms) - F.pmod(F.col(at_ms), F.lit(step_ms))).alias("column")
