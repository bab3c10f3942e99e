"""Outcomes of sending or posting a row."""

from dataclasses import dataclass
from typing import Literal

from app.kafka.errors import InvalidRecord, NotAuthorised, SendError, TooLarge, TopicUnknown
from punctual.contract.request import Reason


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination accepted these rows: the first at `offset`, the others at the offsets after it.

    A row that was posted has an empty topic, and neither offset nor partition.
    """

    rows: list[bytes]
    offset: int
    topic: str
    partition: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The row cannot be delivered; `sentence` is the error of its dead letter."""

    row: bytes
    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The row was `late_ms` too late when it was chosen, and its sender wants late messages dropped."""

    row: bytes
    late_ms: int
    reason: Literal["too-late", "missed"] = "too-late"


@dataclass(frozen=True, slots=True)
class Unsent:
    """The row was not sent, so the command on it applies now."""

    row: bytes


@dataclass(frozen=True, slots=True)
class Called:
    """The row's failure callback was accepted."""

    row: bytes


@dataclass(frozen=True, slots=True)
class Attempted:
    """The row, a message or a callback, was posted and not accepted.

    `why` is the failure, `after_ms` the minimum wait, and `never` says that the host accepts no more messages.
    """

    row: bytes
    why: str
    after_ms: int | None = None
    never: bool = False


Outcome = Delivered | Rejected | Dropped | Unsent | Called | Attempted


def reason_of(error: SendError) -> Reason:
    """Return the reason code of a permanent send error."""
    if isinstance(error, TopicUnknown):
        return Reason.UNKNOWN_TOPIC
    if isinstance(error, TooLarge):
        return Reason.TOO_LARGE
    if isinstance(error, NotAuthorised):
        return Reason.NOT_ALLOWED
    if isinstance(error, InvalidRecord):
        return Reason.INVALID_RECORD
    return Reason.UNDELIVERABLE
