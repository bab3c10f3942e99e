"""Makes due times absolute, so that a wait in the spool does not postpone them."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import msgspec

from punctual.contract import headers as names
from punctual.contract.record import PlainRecord
from punctual.contract.request import Headers, Request
from punctual.contract.times import write_time

Decode = Callable[[PlainRecord], Request]

#: The headers that make a native request's due time depend on its arrival.
_RELATIVE: Final = names.RECURRENCE | {names.AFTER}
#: The dialect with this name has a field with this name for a relative due time.
_COUNTDOWN: Final = "countdown"
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def absolute(record: PlainRecord, decode: Decode, dialect: str) -> PlainRecord:
    """Return a record whose due time does not depend on its arrival in Kafka; `decode` reads it without jitter.

    A retry is not changed, because its ID and backoff depend on its own headers. Raises Refusal.
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
    """Return a record that arrives a millisecond later; if its due time is relative, it changes too."""
    return _with(record, timestamp=record.timestamp + 1)


def _with(record: PlainRecord, **changes: Any) -> PlainRecord:
    return dataclasses.replace(record, **changes)
