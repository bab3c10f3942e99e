"""Adds up the progress reports of all partitions into the overview for operators."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from app.engine.reports.queues import Said
from app.engine.reports.reader import STALE_AFTER_MS, Report
from app.engine.reports.state import Wanted
from app.engine.throttle.control import Control
from app.serve.web.overview_rows import (
    DestinationPause,
    DestinationRow,
    NamespaceRow,
    PartitionRow,
    QueueRow,
    WorkerRow,
    namespace_rows,
    queue_rows,
)
from app.settings.quotas import Quota

_NOTHING = Wanted()
_NO_QUOTAS: Mapping[str, Quota | None] = {}


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """The lateness of the last minute's deliveries, in milliseconds.

    A percentile is the upper bound of its bucket: that share of the deliveries was at most as late. None with a `count`
    above 0 means later than the highest bound in `app.engine.due.lateness.BOUNDS`.
    """

    count: int
    p50_ms: float | None
    p99_ms: float | None


class InstallationOverview(msgspec.Struct, frozen=True, kw_only=True):
    """All workers together at `at_ms`. Counts are exact; times are epoch milliseconds.

    A stale partition counts with its last report, except for the lateness. `pending_unnamed` pending messages are for
    destinations that the reports don't name, and are in none of `destinations`. `retrying` messages have failed over
    HTTP, and are not overdue. `worker` is the URL of the worker that answers. Since `unconfirmed_since_ms` no broker
    has confirmed its writes; then its own partitions come from its memory.
    """

    at_ms: int
    pending: int
    pending_unnamed: int
    overdue: int
    retrying: int
    next_due_ms: int | None
    lateness: Percentiles
    partitions_expected: int
    partitions_stale: list[int]
    partitions_missing: list[int]
    destinations: list[DestinationRow]
    workers: list[WorkerRow]
    partitions: list[PartitionRow]
    queues: list[QueueRow] = []
    namespaces: list[NamespaceRow] = []
    unconfirmed_since_ms: int | None = None
    app_id: str = ""
    worker: str = ""
    version: str = ""


def overview(
    reports: Mapping[int, Report],
    partitions: int,
    now_ms: int,
    trouble: Callable[[str], str] = lambda _: "",
    wanted: Wanted = _NOTHING,
    queues: Iterable[Said] = (),
    quotas: Mapping[str, Quota | None] = _NO_QUOTAS,
) -> InstallationOverview:
    """Return the sum of the reports of an installation with that many partitions.

    Destinations are sorted by pending messages, most first, workers by URL, partitions by number. `trouble` returns why
    a destination accepts no messages, if known; `wanted` has pauses and rate limits. `quotas` has all namespaces.
    """
    rows = [_row(number, reports.get(number), now_ms) for number in sorted({*range(partitions), *reports})]
    fresh = [reports[row.partition] for row in rows if row.state == "reporting"]
    due = [row.next_due_ms for row in rows if row.next_due_ms is not None]
    return InstallationOverview(
        at_ms=now_ms,
        pending=sum(row.pending or 0 for row in rows),
        pending_unnamed=sum(row.pending_unnamed or 0 for row in rows),
        overdue=sum(row.overdue or 0 for row in rows),
        retrying=sum(report.progress.retrying for report in reports.values()),
        next_due_ms=min(due, default=None),
        lateness=percentiles(report.progress.lateness for report in fresh),
        partitions_expected=partitions,
        partitions_stale=[row.partition for row in rows if row.state == "stale"],
        partitions_missing=[row.partition for row in rows if row.state == "missing"],
        destinations=_destinations(reports.values(), trouble, wanted),
        workers=_workers(rows, reports),
        partitions=rows,
        queues=queue_rows(queues, now_ms),
        namespaces=namespace_rows(reports.values(), quotas),
    )


def _row(number: int, report: Report | None, now_ms: int) -> PartitionRow:
    if report is None:
        return PartitionRow(partition=number, state="missing")
    progress = report.progress
    # The broker's clock may be a little ahead of ours; an age is never negative.
    # A repeated report is as old as its content.
    age_ms = max(0, now_ms - (report.appended_ms if progress.state is None else progress.at_ms))
    return PartitionRow(
        partition=number,
        state="stale" if age_ms > STALE_AFTER_MS else "reporting",
        worker=progress.worker,
        age_ms=age_ms,
        pending=progress.total,
        pending_unnamed=progress.pending_rest.messages,
        overdue=progress.overdue,
        next_due_ms=progress.next_due_ms,
        fired_to_ms=progress.fired_to_ms,
        positions=progress.positions,
        unread_since_ms=progress.unread_ms,
    )


def _destinations(reports: Iterable[Report], trouble: Callable[[str], str], wanted: Wanted) -> list[DestinationRow]:
    progress = [report.progress for report in reports]
    pending: Counter[str] = Counter()
    for one in progress:
        pending.update(one.pending)
    held_ms = _oldest(one.held_ms for one in progress)
    paused_ms, paced_ms = _oldest(one.paused_ms for one in progress), _oldest(one.paced_ms for one in progress)
    late = {**held_ms, **paused_ms, **paced_ms, **wanted.pauses}
    names = [name for name in {**pending, **late} if pending[name] or name in late]
    names.sort(key=lambda name: (-pending[name], name))
    return [
        DestinationRow(
            destination=name,
            pending=pending[name],
            held_since_ms=held_ms.get(name),
            held_because=(trouble(name) or None) if name in held_ms else None,
            paused=_pause(wanted.pauses.get(name), paused_ms.get(name)),
            paced_since_ms=paced_ms.get(name),
            rate_per_s=wanted.rates[name].per_s if name in wanted.rates else None,
            burst=wanted.rates[name].burst if name in wanted.rates else None,
        )
        for name in names
    ]


def _oldest(times_ms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    oldest: dict[str, int] = {}
    for by_name in times_ms:
        for name, due_ms in by_name.items():
            oldest[name] = min(due_ms, oldest.get(name, due_ms))
    return oldest


def _pause(control: Control | None, since_ms: int | None) -> DestinationPause | None:
    """Return the pause of a destination from its control, or with the due time only if just reports have it."""
    if control is None:
        return None if since_ms is None else DestinationPause(since_ms=since_ms)
    return DestinationPause(reason=control.reason, by=control.by, until_ms=control.until_ms, since_ms=since_ms)


def _workers(rows: Iterable[PartitionRow], reports: Mapping[int, Report]) -> list[WorkerRow]:
    owned: dict[str, list[PartitionRow]] = {}
    for row in rows:
        if row.worker is not None:
            owned.setdefault(row.worker, []).append(row)
    return [_worker(worker, rows_of_worker, reports) for worker, rows_of_worker in sorted(owned.items())]


def _worker(worker: str, rows: list[PartitionRow], reports: Mapping[int, Report]) -> WorkerRow:
    newest = min(rows, key=lambda row: row.age_ms or 0)
    fresh = (reports[row.partition].progress for row in rows if row.state == "reporting")
    return WorkerRow(
        worker=worker,
        version=reports[newest.partition].progress.version,
        age_ms=newest.age_ms or 0,
        stale=newest.state == "stale",
        pending=sum(row.pending or 0 for row in rows),
        partitions=[row.partition for row in rows],
        held_back=next((progress.held_back for progress in fresh if progress.held_back is not None), None),
    )


def percentiles(histograms: Iterable[Mapping[str, int]]) -> Percentiles:
    """Return the percentiles of all histograms together (counts by upper bound in ms or "inf"); bounds may differ."""
    total: Counter[float] = Counter()
    for histogram in histograms:
        total.update({float(bound): count for bound, count in histogram.items()})
    return Percentiles(count=total.total(), p50_ms=_percentile(total, 50), p99_ms=_percentile(total, 99))


def _percentile(total: Counter[float], percent: int) -> float | None:
    # In integers: 0.99 * 100 is not 99 in floating point, and the answer would be one bucket off.
    rank = -(-total.total() * percent // 100)
    count = 0
    for bound in sorted(total):
        count += total[bound]
        if count >= rank > 0 and math.isfinite(bound):
            return int(bound) if bound.is_integer() else bound
    return None
