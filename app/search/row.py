"""A pending message as it is shown: what its row holds, its bytes in base64."""

from typing import Any, Final

import msgspec

from tables import Entry, keys

#: So much of a value is shown; `value_bytes` says how much there is.
SHOWN: Final = 64 * 1024


class Policies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for beside the time and the place; durations are milliseconds."""

    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    no_later_ms: int | None = None
    on_failure: str | None = None
    partition: int | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One pending message. `row` is its place in the order of all: due time, then arrival, in hex.

    `key`, `value` and headers' values are base64, or null as in Kafka; `asked_ms` is when it was asked for (epoch ms),
    null if that is not known. `recurring` is the number of the occurrence that waits, of a series.
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
    asked_ms: int | None = None
    masked: bool = False
    policies: Policies = Policies()


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
        asked_ms=entry.stamp_ms if entry.stamp_ms >= 0 else None,
        policies=Policies(
            max_late_ms=entry.max_late_ms,
            if_late=entry.if_late,
            dedupe_ms=entry.dedupe_ms,
            no_later_ms=entry.no_later_ms,
            on_failure=entry.on_failure,
            partition=entry.partition,
        ),
    )


def masked(row: Row) -> Row:
    """Return a row without what the message says: sizes stay, and the names of headers."""
    hidden: dict[str, Any] = {"key": None, "value": None, "headers": [(name, None) for name, _ in row.headers]}
    return msgspec.structs.replace(row, masked=True, **hidden)
