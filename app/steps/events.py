"""Events: one JSON object for every change in a message's lifecycle (records.md#events)."""

from typing import Literal

import msgspec

#: The reason of an event whose due time is earlier than was asked for.
NO_LATER = "no-later"

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
]


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    """A change. Times in epoch milliseconds; `late` in milliseconds; sources are `topic-partition-offset`.

    `occurrence` counts those of a recurring message, from the second on: with the source it names a life.
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


encode = msgspec.json.Encoder().encode
