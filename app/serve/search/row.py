"""A pending message as it is shown: what its row holds, its bytes in base64."""

from typing import Any, Final

import msgspec

from app.engine.steps.plan import PAUSED_MS, held_since
from app.engine.steps.series_rules import rule_of
from punctual.contract import recurring
from punctual.contract.destination import shown
from tables import Entry, Series, keys

#: So much of a value is shown; `value_bytes` says how much there is.
SHOWN: Final = 64 * 1024
#: So many planned times of a series.
_RUNS: Final = 5


class RowPolicies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for beside the time and the place; durations are milliseconds."""

    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    no_later_ms: int | None = None
    on_failure: str | None = None
    partition: int | None = None


class SeriesRow(msgspec.Struct, frozen=True, kw_only=True):
    """How a recurring message goes on from the occurrence that waits: a request with these headers asks for the rest.

    `planned_ms` (epoch ms) is when that one is planned; `extra` says that it waits beside the planned one, since it
    was to be run at once. `next_ms` has the next planned times, five at most, by the clocks of `zone`. Of one that is
    paused, `paused_since_ms` says since when, and `kept_due_ms` when its occurrence is due, if not as planned.
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
    """One pending message. `row` is its place in the order of all: due time, then arrival, in hex.

    `key`, `value` and headers' values are base64, or null as in Kafka; `asked_ms` is when it was asked for (epoch ms),
    null if that is not known. `recurring` is the number of the occurrence that waits, of a `series`. With a bound it is
    due by `latest_ms`; `asked_due_ms` is when it was to be due, if that is later.
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


def row_of(partition: int, key: bytes, entry: Entry, *, most: int | None = SHOWN) -> Row:
    """Return what is shown of the message in a row; `most` bytes of its value, None for all."""
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
    # What is run at once leaves the plan as it was, a millisecond before the time that is planned.
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
    """Return a row without what the message says: sizes stay, and the names of headers."""
    hidden: dict[str, Any] = {"key": None, "value": None, "headers": [(name, None) for name, _ in row.headers]}
    return msgspec.structs.replace(without_secrets(row), masked=True, **hidden)


def without_secrets(row: Row) -> Row:
    """Return a row whose URLs are their origins: paths and queries may hold secrets."""
    if "://" in row.to:
        row = msgspec.structs.replace(row, to=shown(row.to))
    on_failure = row.policies.on_failure
    if on_failure is None:
        return row
    return msgspec.structs.replace(row, policies=msgspec.structs.replace(row.policies, on_failure=shown(on_failure)))
