"""A record that somebody has handed in, and what has become of it."""

import msgspec

from app.gateway.spool.errors import SpoolFull

__all__ = ["Outcome", "Refused", "SpoolFull", "Submission", "Taken"]


class Submission(msgspec.Struct, frozen=True, array_like=True):
    """A record for an input topic, complete: with `delay-id`, `delay-dedupe`, `delay-at` and `delay-asked-at`.

    `partition` is where it goes; None has it follow from `id`, by which all orders for an id come to one partition.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    id: str


class Taken(msgspec.Struct, frozen=True):
    """A record that is safe: in Kafka, where the broker says, or `spooled`, on the disk of this gateway."""

    spooled: bool
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class Refused(msgspec.Struct, frozen=True):
    """A record that Kafka refuses for good. `reason` is one of the contract's codes, `sentence` says what to do."""

    reason: str
    sentence: str


Outcome = Taken | Refused
