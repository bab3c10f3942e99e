"""A pending message as the API returns it: the fields of its row, with bytes in base64."""

from typing import Any, Final

import msgspec

from app.engine.steps.plan import PAUSED_MS, held_since
from app.engine.steps.series_rules import rule_of
from punctual.contract import recurring
from punctual.contract.destination import shown
from tables import Entry, Series, keys

#: The maximum bytes of a value that are shown; `value_bytes` is the whole length.
SHOWN: Final = 64 * 1024
#: The maximum number of planned times of a recurring message.
_RUNS: Final = 5


class RowPolicies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of a request other than due time and destination; durations are milliseconds."""

    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    no_later_ms: int | None = None
    on_failure: str | None = None
    partition: int | None = None


class SeriesRow(msgspec.Struct, frozen=True, kw_only=True):
    """The rest of a recurring message, from its pending occurrence on: a request with these headers schedules it.

    `planned_ms` (epoch ms) is the planned time of that occurrence; if `extra` is set, the pending occurrence is in
    addition to the planned one, because it was to run at once. `next_ms` has the next planned times, at most five, by
    the clocks of `zone`. If it is paused, `paused_since_ms` is the time of the pause, and `kept_due_ms` the due time of
    its occurrence if that differs from the plan.
    """

    headers: dict[str, str]
    planned_ms: int
    next_ms: list[int]
    zone: str
    paused: bool
    extra: bool
    paused_since_ms: int | None = None
    kept_due_ms: int | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One pending message. `row` is its place in the order of all messages: due time, then arrival, in hex.

    `key`, `value` and headers' values are base64, or null as in Kafka; `asked_ms` is when it was scheduled (epoch ms),
    null if unknown. `recurring` is the number of the pending occurrence of a `series`. A message with a bound is due by
    `latest_ms`; `asked_due_ms` is the requested due time, if that is later. `cut` names the URLs that are
    cut to their origins.
    """

    id: str
    partition: int
    row: str
    due_ms: int
    to: str
    source: str
    cluster: str | None = None
    key: bytes | None = None
    value: bytes | None = None
    value_bytes: int = 0
    headers: list[tuple[str, bytes | None]] = []
    attempts: int = 0
    next_try_ms: int | None = None
    recurring: int | None = None
    series: SeriesRow | None = None
    asked_ms: int | None = None
    latest_ms: int | None = None
    asked_due_ms: int | None = None
    masked: bool = False
    policies: RowPolicies = RowPolicies()
    cut: list[str] = []


def row_of(partition: int, key: bytes, entry: Entry, *, most: int | None = SHOWN) -> Row:
    """Return the message in a row, with `most` bytes of its value, None for all."""
    value = entry.value
    return Row(
        id=entry.id,
        partition=partition,
        row=key.hex(),
        due_ms=keys.due_of(key),
        to=entry.to,
        source=entry.source,
        cluster=entry.cluster,
        key=entry.key,
        value=value if value is None or most is None else value[:most],
        value_bytes=len(value or b""),
        headers=entry.headers,
        attempts=entry.attempts,
        next_try_ms=entry.next_try_ms,
        recurring=None if entry.series is None else entry.series.number,
        series=None if entry.series is None else _series(entry.series, keys.due_of(key)),
        asked_ms=entry.stamp_ms if entry.stamp_ms >= 0 else None,
        latest_ms=None if entry.bound is None else entry.bound.latest_ms,
        asked_due_ms=None if entry.bound is None else entry.bound.asked_ms,
        policies=RowPolicies(
            max_late_ms=entry.max_late_ms,
            if_late=entry.if_late,
            dedupe_ms=entry.dedupe_ms,
            no_later_ms=entry.no_later_ms,
            on_failure=entry.on_failure,
            partition=entry.partition,
        ),
    )


def _series(series: Series, due_ms: int) -> SeriesRow:
    rule = rule_of(series)
    planned_ms = rule.after(series.planned_ms - 1)
    # A run at once leaves the plan unchanged, and is a millisecond before the planned time.
    extra = planned_ms is not None and planned_ms != series.planned_ms
    number = series.number + extra
    left = _RUNS if rule.count is None else min(_RUNS, rule.count - number + 1)
    return SeriesRow(
        headers=dict(recurring.write(rule, number)),
        planned_ms=series.planned_ms if planned_ms is None else planned_ms,
        next_ms=rule.following(series.planned_ms - 1, left),
        zone=rule.zone or "UTC",
        paused=due_ms == PAUSED_MS,
        extra=extra,
        paused_since_ms=held_since(rule) if due_ms == PAUSED_MS else None,
        kept_due_ms=None if rule.kept is None else rule.kept.due_ms,
    )


def masked(row: Row) -> Row:
    """Return a row without the message's content: sizes and header names stay."""
    hidden: dict[str, Any] = {"key": None, "value": None, "headers": [(name, None) for name, _ in row.headers]}
    return msgspec.structs.replace(without_secrets(row), masked=True, **hidden)


def without_secrets(row: Row) -> Row:
    """Return a row with URLs cut to their origins, because paths and queries may hold secrets."""
    to, on_failure = shown(row.to), row.policies.on_failure
    if to != row.to:
        row = msgspec.structs.replace(row, to=to, cut=["to"])
    if on_failure is None or shown(on_failure) == on_failure:
        return row
    policies = msgspec.structs.replace(row.policies, on_failure=shown(on_failure))
    return msgspec.structs.replace(row, policies=policies, cut=[*row.cut, "on-failure"])
