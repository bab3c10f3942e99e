"""A row's value: the message that waits, and its versioned codec."""

from typing import Literal

import msgspec

from tables.errors import UnknownRowVersion

Operation = Literal["cancel", "reschedule", "deliver-now", "replace"]

VERSION = 1
_PREFIX = bytes([VERSION])

Headers = list[tuple[str, bytes | None]]


class Command(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A command that found its message on the way out: the outcome of the send decides it.

    `due_ms`, `offset` and `topic_crc` make the new row's key (reschedule, deliver-now); `source` names the record.
    """

    op: Operation
    source: str
    due_ms: int = 0
    offset: int = 0
    topic_crc: int = 0


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One pending message: what to deliver, where, and under which policies.

    `source` is `topic-partition-offset` of the request; times are epoch milliseconds, durations milliseconds.
    `url` is set instead of `to` for a failure callback that waits for its next try.
    """

    id: str
    to: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    source: str
    partition: int | None = None
    cluster: str | None = None
    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    on_failure: str | None = None
    attempts: int = 0
    commands: tuple[Command, ...] = ()
    url: str | None = None

    @property
    def replaced(self) -> bool:
        """Whether a later request of the same id has taken its place: its id is no longer its own."""
        return bool(self.commands) and any(command.op == "replace" for command in self.commands)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    """Encode an entry as version byte and msgpack array."""
    return _PREFIX + _encoder.encode(entry)


def decode(raw: bytes) -> Entry:
    """Decode a row's value.

    Raises UnknownRowVersion for a row of a newer version.
    """
    if raw[0] != VERSION:
        raise UnknownRowVersion(raw[0], VERSION)
    return _decoder.decode(raw[1:])
