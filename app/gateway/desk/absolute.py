"""Makes due times absolute: what waits in a spool is due when it would have been without the wait."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import msgspec

from punctual.contract import headers as names
from punctual.contract.record import PlainRecord
from punctual.contract.request import Headers, Request
from punctual.contract.times import write_time

Decode = Callable[[PlainRecord], Request]

#: What makes a native request's due time depend on when it comes.
_RELATIVE: Final = names.RECURRENCE | {names.AFTER}
#: The field that says the due time relatively in the dialect of this name.
_COUNTDOWN: Final = "countdown"
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def absolute(record: PlainRecord, decode: Decode, dialect: str) -> PlainRecord:
    """Return a record whose due time does not depend on when Kafka gets it; `decode` reads it without jitter.

    A retry is left as it is: its id and its backoff go by what it says itself. Raises Refusal.
    """
    said = {name for name, _ in record.headers}
    native = dialect == "native"
    if not said.isdisjoint((names.AT, names.RETRY)) or (native and said.isdisjoint(_RELATIVE)):
        return record
    asked = decode(_without(record, names.JITTER))
    if asked.op not in ("schedule", "reschedule"):
        return record
    if (
        not native
        and asked.recurrence is None
        and decode(_later(_without(record, names.JITTER))).due_ms == asked.due_ms
    ):
        return record
    due_ms = asked.due_ms if asked.recurrence is None else asked.planned_ms
    headers: Headers = [header for header in record.headers if header[0] != names.AFTER]
    headers.append((names.AT, write_time(due_ms).encode()))
    value = record.value
    if dialect == _COUNTDOWN and asked.op == "schedule":
        body = _object.decode(value or b"{}")
        body.pop(_COUNTDOWN, None)
        value = msgspec.json.encode(body)
    return _with(record, value=value, headers=headers)


def _without(record: PlainRecord, name: str) -> PlainRecord:
    return _with(record, headers=[header for header in record.headers if header[0] != name])


def _later(record: PlainRecord) -> PlainRecord:
    """Return a record that comes a moment later, by which no two spans of time are the same."""
    return _with(record, timestamp=record.timestamp + 1)


def _with(record: PlainRecord, **changes: Any) -> PlainRecord:
    return dataclasses.replace(record, **changes)
