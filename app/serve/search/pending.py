"""A pending message in the form that GET returns: the short form, so that it can be edited and sent again."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from app.engine.steps.plan import PAUSED_MS, held_since
from app.engine.steps.series_rules import rule_of
from punctual.contract import headers as names
from punctual.contract import recurring
from punctual.contract.destination import shown as origin_of
from punctual.contract.times import moment_of
from tables import Entry, Series, keys

#: The maximum bytes of a value that are shown; `value_bytes` is the whole length.
SHOWN: Final = 64 * 1024
#: The maximum number of planned times of a recurring message.
_RUNS: Final = 5
#: The maximum bytes of keys, values and headers in a response; the last message may exceed it.
MAX_BYTES: Final = 8 << 20


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

    @property
    def size(self) -> int:
        """The number of bytes of its content in a response."""
        return size_of(self.key, self.value, self.headers)


_SERIES: Final = ("every", "cron", "zone", "until", "count", "misfire", "jitter")


def pending(partition: int, key: bytes, entry: Entry, *, most: int | None = SHOWN) -> PendingMessage:
    """Return the message in a row of a partition's table, with `most` bytes of its value, None for all."""
    due_ms, series, bound = keys.due_of(key), entry.series, entry.bound
    value = entry.value if entry.value is None or most is None else entry.value[:most]
    message = PendingMessage(
        id=entry.id,
        to=entry.to,
        due_ms=due_ms,
        source=entry.source,
        at=written(due_ms),
        key=shown(entry.key),
        value=shown(value),
        headers=[(name, shown(text)) for name, text in entry.headers],
        to_partition=entry.partition,
        to_cluster=entry.cluster,
        max_late=entry.max_late_ms,
        if_late=entry.if_late,
        dedupe=entry.dedupe_ms,
        no_later=entry.no_later_ms,
        on_failure=entry.on_failure,
        partition=partition,
        value_bytes=len(entry.value or b""),
        asked_ms=entry.stamp_ms if entry.stamp_ms >= 0 else None,
        latest_ms=None if bound is None else bound.latest_ms,
        asked_due_ms=None if bound is None else bound.asked_ms,
        attempts=entry.attempts,
        next_try_ms=entry.next_try_ms,
        cut=["value"] if value is not None and len(value) < len(entry.value or b"") else [],
    )
    return message if series is None else msgspec.structs.replace(message, **_plan(series, due_ms))


def _plan(series: Series, due_ms: int) -> dict[str, Any]:
    """Return the fields of a recurring message, from its pending occurrence on: a request with them schedules it."""
    rule = rule_of(series)
    planned_ms = rule.after(series.planned_ms - 1)
    # A run at once leaves the plan unchanged, and is a millisecond before the planned time.
    extra = planned_ms is not None and planned_ms != series.planned_ms
    number = series.number + extra
    left = _RUNS if rule.count is None else min(_RUNS, rule.count - number + 1)
    headers = dict(recurring.write(rule, number))
    planned_ms = series.planned_ms if planned_ms is None else planned_ms
    return {name: headers.get(names.PREFIX + name) for name in _SERIES} | {
        "at": written(planned_ms),
        "occurrence": series.number,
        "planned_ms": planned_ms,
        "next_ms": rule.following(series.planned_ms - 1, left),
        "extra": extra,
        "paused": due_ms == PAUSED_MS,
        "paused_since_ms": held_since(rule) if due_ms == PAUSED_MS else None,
        "kept_due_ms": None if rule.kept is None else rule.kept.due_ms,
    }


def masked(message: PendingMessage) -> PendingMessage:
    """Return a message without its content: sizes and header names stay."""
    bare = without_secrets(message)
    cut = [name for name in bare.cut if name != "value"]
    headers: list[tuple[str, Shown]] = [(name, None) for name, _ in bare.headers]
    return msgspec.structs.replace(bare, masked=True, key=None, value=None, headers=headers, cut=cut)


def without_secrets(message: PendingMessage) -> PendingMessage:
    """Return a message with URLs cut to their origins, because paths and queries may hold secrets."""
    to, on_failure = origin_of(message.to), message.on_failure and origin_of(message.on_failure)
    cut = [*(["to"] if to != message.to else []), *(["on-failure"] if on_failure != message.on_failure else [])]
    return msgspec.structs.replace(message, to=to, on_failure=on_failure, cut=[*cut, *message.cut]) if cut else message


def shown(raw: bytes | None) -> Shown:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Base64(raw)


def written(due_ms: int) -> str | None:
    """Return a time in RFC 3339, None beyond the year 9999."""
    try:
        return moment_of(due_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def size_of(key: bytes | Shown, value: bytes | Shown, headers: Sequence[tuple[str, bytes | Shown]]) -> int:
    """Return the number of bytes of a message's content in a response."""
    return _length(key) + _length(value) + sum(len(name) + _length(text) for name, text in headers)


def _length(content: bytes | Shown) -> int:
    raw = content.base64 if isinstance(content, Base64) else content or b""
    return len(raw.encode() if isinstance(raw, str) else raw)
