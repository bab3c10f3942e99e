"""Makes due times absolute, so that a wait in the spool does not postpone them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

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
    header_names = {name for name, _ in record.headers}
    native = dialect == "native"
    if not header_names.isdisjoint((names.AT, names.RETRY)) or (native and header_names.isdisjoint(_RELATIVE)):
        return record
    plain = dataclasses.replace(record, headers=_without(record.headers, names.JITTER))
    request = decode(plain)
    if request.op not in ("schedule", "reschedule"):
        return record
    due_ms = request.due_ms if request.recurrence is None else request.planned_ms
    if not native and request.recurrence is None:
        later = dataclasses.replace(plain, timestamp=record.timestamp + 1)
        if decode(later).due_ms == due_ms:  # the due time does not depend on the arrival
            return record
    value = record.value
    if dialect == _COUNTDOWN and request.op == "schedule":
        body = _object.decode(value or b"{}")
        body.pop(_COUNTDOWN, None)
        value = msgspec.json.encode(body)
    headers = [*_without(record.headers, names.AFTER), (names.AT, write_time(due_ms).encode())]
    return dataclasses.replace(record, value=value, headers=headers)


def _without(headers: Sequence[tuple[str, bytes | None]], name: str) -> Headers:
    return [header for header in headers if header[0] != name]
