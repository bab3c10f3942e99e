"""A pending message in the form that GET returns: the short form, so that it can be edited and sent again."""

from typing import Any

import msgspec

from app.serve.search.row import Row
from punctual.contract import headers as names
from punctual.contract.request import Headers
from punctual.contract.times import moment_of


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are not UTF-8."""

    base64: bytes


Shown = str | Base64 | None


def _name(name: str) -> str:
    """Return the name of a field in JSON: of a native header, or of the message's state, with its unit."""
    return name if name.endswith(("_ms", "_bytes")) else name.replace("_", "-")


class PendingMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_name):
    """A pending message. Durations are milliseconds; bytes are text, or base64 if they are not UTF-8.

    `due_ms` is the due time in epoch milliseconds, and `at` the same (RFC 3339). For a recurring message, `at` is the
    planned time of the next occurrence, before `jitter`; `occurrence` is its number, `next_ms` the next planned times,
    and with `extra` an occurrence at once comes before them. `source` is its record, `topic-partition-offset`, in
    `partition`; it was requested at `asked_ms`. With `no-later`, it is due by `latest_ms`, and `asked_due_ms` is the
    requested time if that is later. `attempts` counts failed HTTP attempts, and the next one is at `next_try_ms`.
    While it is `paused`, since `paused_since_ms`, `kept_due_ms` is the due time of its occurrence if that is not the
    planned one. `cut` names the fields that are not shown whole; the value has `value_bytes`. If `masked`, the
    installation does not show the key, the value and the values of headers.
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
    partition: int
    value_bytes: int = 0
    asked_ms: int | None = None
    latest_ms: int | None = None
    asked_due_ms: int | None = None
    attempts: int = 0
    next_try_ms: int | None = None
    occurrence: int | None = None
    planned_ms: int | None = None
    next_ms: list[int] = []
    extra: bool = False
    paused: bool = False
    paused_since_ms: int | None = None
    kept_due_ms: int | None = None
    masked: bool = False
    cut: list[str] = []


_SERIES = ("every", "cron", "zone", "until", "count", "misfire", "jitter")
_PLAN = ("planned_ms", "next_ms", "extra", "paused", "paused_since_ms", "kept_due_ms")


def pending(row: Row) -> PendingMessage:
    """Return a worker's row in the short form."""
    asked, series = row.policies, row.series
    recurs: dict[str, Any] = (
        {} if series is None else {name: series.headers.get(names.PREFIX + name) for name in _SERIES}
    )
    plan: dict[str, Any] = {} if series is None else {name: getattr(series, name) for name in _PLAN}
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
        partition=row.partition,
        value_bytes=row.value_bytes,
        asked_ms=row.asked_ms,
        latest_ms=row.latest_ms,
        asked_due_ms=row.asked_due_ms,
        attempts=row.attempts,
        next_try_ms=row.next_try_ms,
        occurrence=row.recurring,
        masked=row.masked,
        cut=[*row.cut, *(["value"] if row.value is not None and len(row.value) < row.value_bytes else [])],
        **recurs,
        **plan,
    )


def shown(raw: bytes | None) -> Shown:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Base64(raw)


def texted(one: msgspec.Struct, key: bytes | None, value: bytes | None, headers: Headers) -> dict[str, Any]:
    """Return the members of a structure, with these bytes as text or base64."""
    texts = {"key": shown(key), "value": shown(value), "headers": [(name, shown(text)) for name, text in headers]}
    return msgspec.structs.asdict(one) | texts


def written(due_ms: int) -> str | None:
    """Return a time in RFC 3339, None beyond the year 9999."""
    try:
        return moment_of(due_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
