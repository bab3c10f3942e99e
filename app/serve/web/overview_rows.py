"""The rows of the overview: for each destination, partition, worker, acknowledged queue and namespace."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from app.engine.reports.queues import SILENT_MS, Said
from app.engine.reports.reader import Report
from app.settings.quotas import Quota
from punctual.contract.queue_report import QueueReport  # noqa: TC001 - needed for annotations

_SUMS = ("probes", "unacked", "acked", "nacked", "expired", "exhausted")


class DestinationPause(msgspec.Struct, frozen=True, kw_only=True):
    """The reason of a destination's pause, the user who paused it, and its end (epoch ms).

    `since_ms` is the oldest due time of the messages that wait for the end.
    """

    reason: str = ""
    by: str = ""
    until_ms: int | None = None
    since_ms: int | None = None


class DestinationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One destination; `held_since_ms` is the oldest due time of messages that it did not accept (epoch ms).

    `held_because` is the reason, if the worker that answers knows it. `pending` leaves out partitions whose report does
    not name the destination. `paced_since_ms` is the oldest due time of messages that wait because of the rate limit,
    `rate_per_s` and `burst`. The rate limit and `paused` are as the worker that answers knows them.
    """

    destination: str
    pending: int
    held_since_ms: int | None
    held_because: str | None = None
    paused: DestinationPause | None = None
    paced_since_ms: int | None = None
    rate_per_s: float | None = None
    burst: int | None = None


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The last known state of one partition.

    `state` is "reporting", "stale" (the last report is older than 10 s) or "missing" (no report, the rest is None).
    `age_ms` is the age of the report, `positions` the next offset to read per input topic. `pending_unnamed` counts
    pending messages of destinations that the report does not name. Since `unread_since_ms` requests wait unread.
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


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One worker and the partitions that it was the last to report; `age_ms` is the age of its newest report.

    `held_back` is the reason why it reads no requests: `disk` if there is too little free space.
    """

    worker: str
    version: str
    age_ms: int
    stale: bool
    pending: int
    partitions: list[int]
    held_back: str | None = None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledged queue whose consumers have reported lately: a topic and a consumer group.

    Of its `consumers`, `breakers_open` let only probes pass; `unacked` messages are handed out. The other counts are
    sums since these consumers started. `lag_ms` is how far the worker lags with the queue's markers.
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


class NamespaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The pending messages of one namespace, from the reports, and its quota; None means no limit.

    `remembered` counts IDs of messages that have ended, and of commands whose messages have not arrived.
    """

    namespace: str
    messages: int
    bytes: int
    remembered: int = 0
    messages_limit: int | None = None
    bytes_limit: int | None = None
    remembered_limit: int | None = None
    rate_per_s: float | None = None


def namespace_rows(reports: Iterable[Report], quotas: Mapping[str, Quota | None]) -> list[NamespaceRow]:
    """Return a row for each namespace, by name, also for former namespaces with pending messages."""
    messages, size, remembered = Counter[str](dict.fromkeys(quotas, 0)), Counter[str](), Counter[str]()
    for report in reports:
        for name, waiting in report.progress.namespaces.items():
            messages[name] += waiting.messages
            size[name] += waiting.bytes
            remembered[name] += waiting.remembered
    return [
        NamespaceRow(
            namespace=name,
            messages=messages[name],
            bytes=size[name],
            remembered=remembered[name],
            messages_limit=quota.messages,
            bytes_limit=quota.bytes,
            remembered_limit=quota.remembered_limit,
            rate_per_s=None if quota.rate is None else quota.rate.per_s,
        )
        for name, quota in ((name, quotas.get(name) or Quota()) for name in sorted(messages))
    ]


def queue_rows(reports: Iterable[Said], now_ms: int) -> list[QueueRow]:
    """Return a row for each queue whose consumers have reported lately, queues with an open breaker first."""
    by_queue: dict[tuple[str, str], list[QueueReport]] = {}
    for report, at_ms in reports:
        if now_ms - at_ms <= SILENT_MS:
            by_queue.setdefault((report.topic, report.group), []).append(report)
    queues = [
        QueueRow(
            topic=topic,
            group=group,
            consumers=len(of_queue),
            breakers_open=sum(report.open for report in of_queue),
            lag_ms=max(report.lag_ms for report in of_queue),
            **{name: sum(getattr(report, name) for report in of_queue) for name in _SUMS},
        )
        for (topic, group), of_queue in by_queue.items()
    ]
    return sorted(queues, key=lambda queue: (not queue.breakers_open, queue.topic, queue.group))
