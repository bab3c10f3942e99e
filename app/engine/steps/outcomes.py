"""What can become of a row that is sent or posted."""

from dataclasses import dataclass
from typing import Literal

from app.kafka.errors import InvalidRecord, NotAuthorised, SendError, TooLarge, TopicUnknown
from punctual.contract.request import Reason


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has acknowledged these rows: the offset of the first, topic and partition, the time of sending.

    The others follow it. One that was posted has none of the former: its topic is empty.
    """

    rows: list[bytes]
    offset: int
    topic: str
    partition: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """This row will not be delivered."""

    row: bytes
    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """This row is too late, by so much when it was looked at, and its sender wants it dropped then."""

    row: bytes
    late_ms: int
    reason: Literal["too-late", "missed"] = "too-late"


@dataclass(frozen=True, slots=True)
class Unsent:
    """This row has not been sent, and a command is written on it: it applies now."""

    row: bytes


@dataclass(frozen=True, slots=True)
class Called:
    """This row's failure callback has been taken."""

    row: bytes


@dataclass(frozen=True, slots=True)
class Attempted:
    """This row, a message or a callback, was posted and not taken.

    Why, how long to wait at least, and whether it is never taken.
    """

    row: bytes
    why: str
    after_ms: int | None = None
    never: bool = False


Outcome = Delivered | Rejected | Dropped | Unsent | Called | Attempted


def reason_of(error: SendError) -> Reason:
    """Return the reason code of a send that failed for good."""
    if isinstance(error, TopicUnknown):
        return Reason.UNKNOWN_TOPIC
    if isinstance(error, TooLarge):
        return Reason.TOO_LARGE
    if isinstance(error, NotAuthorised):
        return Reason.NOT_ALLOWED
    if isinstance(error, InvalidRecord):
        return Reason.INVALID_RECORD
    return Reason.UNDELIVERABLE
