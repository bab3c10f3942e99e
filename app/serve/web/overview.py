"""Adds up the progress reports of all partitions into what an operator wants to know."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from app.engine.reports.queues import SILENT_MS, Said
from app.engine.reports.reader import STALE_AFTER_MS, Report
from app.engine.reports.state import Wanted
from app.engine.throttle.control import Control
from app.serve.web.percentiles import Percentiles, percentiles
from app.settings.quotas import Quota
from punctual.contract.queue_report import QueueReport  # noqa: TC001 - needed for annotations

_SUMS = ("probes", "unacked", "acked", "nacked", "expired", "exhausted")


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a destination is paused, by whom and until when (epoch ms).

    `since_ms` is the oldest due time that waits for its end.
    """

    reason: str = ""
    by: str = ""
    until_ms: int | None = None
    since_ms: int | None = None


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for one destination; `held_since_ms` is the oldest due time that it could not be given (epoch ms).

    `held_because` says why, if the worker that answers knows.
    `pending` leaves out partitions whose report does not name it. `paced_since_ms` is the oldest due time that waits
    for its turn, by the cap of `rate_per_s` and `burst`: they are as the worker that answers knows them, like `paused`.
    """

    destination: str
    pending: int
    held_since_ms: int | None
    held_because: str | None = None
    paused: Pause | None = None
    paced_since_ms: int | None = None
    rate_per_s: float | None = None
    burst: int | None = None


_NOTHING = Wanted()
_NO_QUOTAS: Mapping[str, Quota | None] = {}


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """The last that is known of one partition.

    `state` is "reporting", "stale" (the last report is older than 10 s) or "missing" (none at all, the rest is None).
    `age_ms` is the age of the report, `positions` the next offset to read per input topic. `pending_unnamed` are those
    of `pending` whose destinations the report does not name. `unread_since_ms` is since when requests wait unread.
    """

    partition: int
    state: Literal["reporting", "stale", "missing"]
    worker: str | None = None
    age_ms: int | None = None
    pending: int | None = None
    pending_unnamed: int | None = None
    overdue: int | None = None
    next_due_ms: int | None = None
    fired_to_ms: int | None = None
    positions: dict[str, int] | None = None
    unread_since_ms: int | None = None


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker and the partitions that it was the last to report; `age_ms` is the age of its newest report.

    `held_back` is why it takes no requests: `disk` if too little of that is free.
    """

    worker: str
    version: str
    age_ms: int
    stale: bool
    pending: int
    partitions: list[int]
    held_back: str | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledged queue, of which consumers have reported lately: a topic, and the group that works on it.

    `breakers_open` of its `consumers` let only probes pass, `unacked` messages are handed out. The other counts are
    sums since each of these consumers began. `lag_ms` is how far the worker is behind with the queue's markers.
    """

    topic: str
    group: str
    consumers: int
    breakers_open: int
    probes: int
    unacked: int
    acked: int
    nacked: int
    expired: int
    exhausted: int
    lag_ms: int


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """What waits of one namespace, as far as partitions have reported it, and its quota; None is no limit.

    `remembered` ids are those of messages that have ended, and of commands that wait for theirs.
    """

    namespace: str
    messages: int
    bytes: int
    remembered: int = 0
    messages_limit: int | None = None
    bytes_limit: int | None = None
    remembered_limit: int | None = None
    rate_per_s: float | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """All workers together at `at_ms`. Counts are exact; times are epoch milliseconds.

    A stale partition still counts with what it last reported, except for the lateness. `pending_unnamed` of what is
    pending is for destinations that the reports don't name, and is in none of `destinations`. `retrying` have failed
    over HTTP, and are not overdue. `unconfirmed_since_ms` is since when no broker has confirmed what the worker that
    answers writes; then its partitions are as it knows them itself.
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
    destinations: list[Destination]
    workers: list[Worker]
    partitions: list[Partition]
    queues: list[Queue] = []
    namespaces: list[Namespace] = []
    unconfirmed_since_ms: int | None = None


def overview(
    reports: Mapping[int, Report],
    partitions: int,
    now_ms: int,
    trouble: Callable[[str], str] = lambda _: "",
    wanted: Wanted = _NOTHING,
    queues: Iterable[Said] = (),
    quotas: Mapping[str, Quota | None] = _NO_QUOTAS,
) -> Overview:
    """Return the sum of the reports of an installation that has that many partitions.

    Destinations come with the most pending first, workers by their URL, partitions by their number. `trouble` says why
    a destination takes nothing, as far as that is known, and `wanted` what operators want. `quotas` are those of all
    namespaces that there are.
    """
    rows = [_row(number, reports.get(number), now_ms) for number in sorted({*range(partitions), *reports})]
    fresh = [reports[row.partition] for row in rows if row.state == "reporting"]
    due = [row.next_due_ms for row in rows if row.next_due_ms is not None]
    return Overview(
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


def namespace_rows(reports: Iterable[Report], quotas: Mapping[str, Quota | None]) -> list[Namespace]:
    """Return what waits of each namespace, by name; of one that is none any more too, as long as anything does."""
    messages, size, remembered = Counter[str](dict.fromkeys(quotas, 0)), Counter[str](), Counter[str]()
    for report in reports:
        for name, waiting in report.progress.namespaces.items():
            messages[name] += waiting.messages
            size[name] += waiting.bytes
            remembered[name] += waiting.remembered
    found = []
    for name in sorted(messages):
        quota = quotas.get(name) or Quota()
        found.append(
            Namespace(
                namespace=name,
                messages=messages[name],
                bytes=size[name],
                remembered=remembered[name],
                messages_limit=quota.messages,
                bytes_limit=quota.bytes,
                remembered_limit=quota.remembered_limit,
                rate_per_s=None if quota.rate is None else quota.rate.per_s,
            )
        )
    return found


def queue_rows(said: Iterable[Said], now_ms: int) -> list[Queue]:
    """Return the queues whose consumers have reported lately, those with an open breaker first."""
    of: dict[tuple[str, str], list[QueueReport]] = {}
    for report, at_ms in said:
        if now_ms - at_ms <= SILENT_MS:
            of.setdefault((report.topic, report.group), []).append(report)
    queues = [
        Queue(
            topic=topic,
            group=group,
            consumers=len(reports),
            breakers_open=sum(report.open for report in reports),
            lag_ms=max(report.lag_ms for report in reports),
            **{name: sum(getattr(report, name) for report in reports) for name in _SUMS},
        )
        for (topic, group), reports in of.items()
    ]
    return sorted(queues, key=lambda queue: (not queue.breakers_open, queue.topic, queue.group))


def _row(number: int, report: Report | None, now_ms: int) -> Partition:
    if report is None:
        return Partition(partition=number, state="missing")
    progress = report.progress
    # The broker's clock may be a little ahead of ours; an age is never negative.
    # A report that is repeated is as old as what it says.
    age_ms = max(0, now_ms - (report.appended_ms if progress.state is None else progress.at_ms))
    return Partition(
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


def _destinations(reports: Iterable[Report], trouble: Callable[[str], str], wanted: Wanted) -> list[Destination]:
    pending: Counter[str] = Counter()
    held_ms, paused_ms, paced_ms = dict[str, int](), dict[str, int](), dict[str, int]()
    for report in reports:
        pending.update(report.progress.pending)
        _oldest(held_ms, report.progress.held_ms)
        _oldest(paused_ms, report.progress.paused_ms)
        _oldest(paced_ms, report.progress.paced_ms)
    told = {**held_ms, **paused_ms, **paced_ms, **wanted.pauses}
    names = [name for name in {**pending, **told} if pending[name] or name in told]
    names.sort(key=lambda name: (-pending[name], name))
    return [
        Destination(
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


def _oldest(found: dict[str, int], told: Mapping[str, int]) -> None:
    for name, due_ms in told.items():
        found[name] = min(due_ms, found.get(name, due_ms))


def _pause(control: Control | None, since_ms: int | None) -> Pause | None:
    """Return what is known of a pause: the control that this worker has read, or only that reports tell of one."""
    if control is None:
        return None if since_ms is None else Pause(since_ms=since_ms)
    return Pause(reason=control.reason, by=control.by, until_ms=control.until_ms, since_ms=since_ms)


def _workers(rows: Iterable[Partition], reports: Mapping[int, Report]) -> list[Worker]:
    owned: dict[str, list[Partition]] = {}
    for row in rows:
        if row.worker is not None:
            owned.setdefault(row.worker, []).append(row)
    return [_worker(worker, owned[worker], reports) for worker in sorted(owned)]


def _worker(worker: str, rows: list[Partition], reports: Mapping[int, Report]) -> Worker:
    newest = min(rows, key=lambda row: row.age_ms or 0)
    fresh = (reports[row.partition].progress for row in rows if row.state == "reporting")
    return Worker(
        worker=worker,
        version=reports[newest.partition].progress.version,
        age_ms=newest.age_ms or 0,
        stale=newest.state == "stale",
        pending=sum(row.pending or 0 for row in rows),
        partitions=[row.partition for row in rows],
        held_back=next((progress.held_back for progress in fresh if progress.held_back is not None), None),
    )
