"""A request as every dialect decodes it, and the refusal of a request."""

import re
from enum import StrEnum
from typing import Literal

import msgspec

from punctual.contract.recurrence import Recurrence

#: Valid topic names (org.apache.kafka.common.internals.Topic.validate).
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

#: The maximum bytes of an id in UTF-8 (records.md#requests).
ID_BYTES = 256

Op = Literal["schedule", "cancel", "reschedule", "deliver-now", "pause", "resume"]
Headers = list[tuple[str, bytes | None]]


class Reason(StrEnum):
    """Why a message became a dead letter (records.md#dead-letters)."""

    MALFORMED = "malformed"
    BAD_TIMESTAMP = "bad-timestamp"
    MISSING_DESTINATION = "missing-destination"
    MISSING_DUE = "missing-due"
    AMBIGUOUS_DUE = "ambiguous-due"
    BAD_ID = "bad-id"
    TOO_FAR = "too-far"
    TOO_LARGE = "too-large"
    UNKNOWN_TOPIC = "unknown-topic"
    UNKNOWN_CLUSTER = "unknown-cluster"
    NOT_ALLOWED = "not-allowed"
    TOO_MANY_DESTINATIONS = "too-many-destinations"
    QUOTA = "quota"
    UNDELIVERABLE = "undeliverable"
    INVALID_RECORD = "invalid-record"
    TOO_LATE = "too-late"
    ATTEMPTS_EXHAUSTED = "attempts-exhausted"


class Refusal(Exception):
    """A request cannot be accepted: a reason code, and a sentence with the problem and what to do."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        """Keep the reason code and the sentence."""
        super().__init__(sentence)
        self.reason, self.sentence = reason, sentence


class Parked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The cold tier's report about a message that it sends back.

    `source` and `stamp_ms` belong to the last record about its id that the cold tier knew; it knew all records up to
    `snapshot_ms`. `first_ms` is when a bound begins (docs/reference/records.md#debounce).
    """

    stamp_ms: int
    snapshot_ms: int
    source: str
    first_ms: int | None = None


class Request(msgspec.Struct, array_like=True, gc=False):
    """A decoded request or command. Times are epoch milliseconds, durations milliseconds.

    `source` is `topic-partition-offset` of the record, `input` its topic. `stamp_ms` is its Kafka timestamp when it is
    decoded, and later the time that orders it among records for its id: the largest timestamp so far in its partition,
    or `asked_at_ms` if that is earlier. `jitter_ms` is part of `due_ms` already. A `recurrence` makes it the
    first occurrence of a series, which is planned for `planned_ms`; `says_when` is whether its sender has set the
    beginning of the series, None in forwards of older workers. It is msgpack in the forwards topic, so new fields must
    be at the end.
    """

    op: Op
    id: str
    source: str
    stamp_ms: int
    input: str
    due_ms: int = 0
    to: str = ""
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = []
    partition: int | None = None
    cluster: str | None = None
    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    on_failure: str | None = None
    if_due_ms: int | None = None
    parked: Parked | None = None
    asked_at_ms: int | None = None
    no_later_ms: int | None = None
    jitter_ms: int | None = None
    recurrence: Recurrence | None = None
    planned_ms: int = 0
    says_when: bool | None = None


_encode = msgspec.msgpack.Encoder().encode
#: The beginning of a msgpack array with all fields except the last one.
_ALL_BUT_LAST = b"\xdc" + (len(Request.__struct_fields__) - 1).to_bytes(2)


def encode(request: Request) -> bytes:
    """Return a request as msgpack, without `says_when` unless it recurs."""
    raw = _encode(request)
    return raw if request.says_when is not None else _ALL_BUT_LAST + raw[len(_ALL_BUT_LAST) : -1]


decode = msgspec.msgpack.Decoder(Request).decode
