"""Events: one JSON object per change in a message's lifecycle (records.md#events)."""

from typing import Annotated, Any, Final, Literal

import msgspec

#: The reason of an event whose due time is earlier than requested.
NO_LATER = "no-later"
#: The reason of an event whose due time follows new rules of a zone.
ZONE_RULES = "zone-rules"

Kind = Literal[
    "accepted",
    "delivered",
    "cancelled",
    "replaced",
    "dropped",
    "rejected",
    "parked",
    "rescheduled",
    "attempted",
    "refused",
    "duplicate",
    "unknown",
    "conflict",
    "stale",
    "deferred",
    "skipped",
    "truncated",
]


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    """A change. Times in epoch milliseconds; `late` in milliseconds; sources are `topic-partition-offset`.

    `occurrence` counts those of a recurring message, from the second on: together with the source it identifies a life.
    `count` is the number of skipped occurrences.
    """

    event: Kind
    id: str
    at: int
    source: str
    due: int | None = None
    to: str | None = None
    late: int | None = None
    delivered: str | None = None
    reason: str | None = None
    by: str | None = None
    attempts: int | None = None
    occurrence: int | None = None
    count: int | None = None


class _Read(msgspec.Struct, gc=False):
    """The required fields of a record on the topic of events, also of kinds from newer workers."""

    event: str
    id: str
    at: "_Whole"
    source: str
    due: "_Whole | None" = None
    to: str | None = None
    late: "_Whole | None" = None
    delivered: str | None = None
    reason: str | None = None
    by: str | None = None
    attempts: "_Whole | None" = None
    occurrence: "_Whole | None" = None


#: Integers within the range that all JSON parsers support.
_Whole = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
encode: Final = msgspec.json.Encoder().encode
_check: Final = msgspec.json.Decoder(_Read).decode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def decode(value: bytes) -> dict[str, Any]:
    """Return the fields of an event. Raises ValueError for a foreign record: other clients may write to the topic."""
    try:
        _check(value)
        return _decode(value)
    except RecursionError as error:
        raise ValueError("it has too many layers") from error
