"""A pending message in the form that GET returns: the short form, so that it could be sent again."""

import msgspec

from app.gateway.api.messages import written
from app.gateway.api.short_form import Base64
from app.serve.search.row import Row
from punctual.contract import headers as names

Shown = str | Base64 | None


class PendingMessage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=lambda name: name.replace("_", "-")
):
    """A pending message. Durations are milliseconds; bytes are text, or base64 if they are not UTF-8.

    `due-ms` is the due time in epoch milliseconds, and `at` the same (RFC 3339). For a recurring message, `at` is the
    planned time of the next occurrence, before `jitter`. `source` is its record, `topic-partition-offset`. `attempts`
    counts failed HTTP attempts, and the next one is at `next-try-ms`. If `masked`, the installation does not show the
    key, the value and the values of headers.
    """

    id: str
    to: str
    due_ms: int
    source: str
    at: str | None = None
    key: Shown = None
    value: Shown = None
    headers: list[tuple[str, Shown]] = []
    to_partition: int | None = None
    to_cluster: str | None = None
    max_late: int | None = None
    if_late: str | None = None
    dedupe: int | None = None
    no_later: int | None = None
    on_failure: str | None = None
    every: str | None = None
    cron: str | None = None
    zone: str | None = None
    until: str | None = None
    count: str | None = None
    misfire: str | None = None
    jitter: str | None = None
    attempts: int = 0
    next_try_ms: int | None = None
    paused: bool = False
    masked: bool = False


_SERIES = ("every", "cron", "zone", "until", "count", "misfire", "jitter")


def pending(row: Row) -> PendingMessage:
    """Return a worker's row in the short form."""
    asked, series = row.policies, row.series
    recurs = {} if series is None else {name: series.headers.get(names.PREFIX + name) for name in _SERIES}
    return PendingMessage(
        id=row.id,
        to=row.to,
        due_ms=row.due_ms,
        source=row.source,
        at=written(row.due_ms if series is None else series.planned_ms),
        key=shown(row.key),
        value=shown(row.value),
        headers=[(name, shown(value)) for name, value in row.headers],
        to_partition=asked.partition,
        to_cluster=row.cluster,
        max_late=asked.max_late_ms,
        if_late=asked.if_late,
        dedupe=asked.dedupe_ms,
        no_later=asked.no_later_ms,
        on_failure=asked.on_failure,
        attempts=row.attempts,
        next_try_ms=row.next_try_ms,
        paused=series is not None and series.paused,
        masked=row.masked,
        **recurs,
    )


def shown(raw: bytes | None) -> Shown:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Base64(raw)
