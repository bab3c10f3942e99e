"""The order of records for an id, and the memory of ids that have no row (docs/decisions/0010)."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Operation = Literal["cancel", "reschedule", "deliver-now", "pause", "resume", "replace"]

#: Commands that apply to recurring messages only.
OF_SERIES = ("pause", "resume")
#: The stamp of a record without one: older than every other stamp.
UNKNOWN_MS = -1
_NOBODY = "-0-0"


class RecordStamp(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """When a request or command was written: its record's stamp (epoch ms) and source `topic-partition-offset`."""

    stamp_ms: int
    source: str

    def precedes(self, other: "RecordStamp") -> bool:
        """Return whether this stamp is the earlier one: by time, then by topic, partition and offset."""
        if self.stamp_ms != other.stamp_ms:
            return self.stamp_ms < other.stamp_ms
        return self.source != other.source and _place(self.source) < _place(other.source)


def _place(source: str) -> tuple[str, int, int]:
    topic, _, rest = source.rpartition("-")
    topic, _, partition = topic.rpartition("-")
    if not (partition.isdecimal() and rest.isdecimal()):  # only a forged record has such a source
        return source, 0, 0
    return topic, int(partition), int(rest)


class Command(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A command that waits: for the outcome of its message's send, or for its message.

    `due_ms`, `offset` and `topic_crc` make the new row's key (reschedule, deliver-now); `source` names the record.
    With `if_due_ms` it applies only to a message that is due exactly then.
    """

    op: Operation
    source: str
    due_ms: int = 0
    offset: int = 0
    topic_crc: int = 0
    stamp_ms: int = UNKNOWN_MS
    if_due_ms: int | None = None

    @property
    def stamp(self) -> RecordStamp:
        """The command's time and source."""
        return RecordStamp(self.stamp_ms, self.source)

    @property
    def moves(self) -> bool:
        """Whether the command moves its message regardless of the message's due time."""
        return self.if_due_ms is None and self.op not in ("cancel", "replace")

    def rivals(self, other: "Command") -> bool:
        """Return whether only the later of the two applies. Pause and resume do not compete with other commands."""
        return self.moves and other.moves and (self.op in OF_SERIES) == (other.op in OF_SERIES)


class RememberedCommands(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The commands and the end of an id that has no row, remembered until `expires_ms`.

    `stamp_ms` and `source` belong to the record that ended its last message, or would have ended it: earlier requests
    have no effect, because of a cancel if `cancelled`. `commands`, in their order, wait for an older request that comes
    after them. Earlier versions stored only cancels, in the first four fields: with `if_due_ms`, no message was ended.
    """

    stamp_ms: int
    expires_ms: int
    source: str
    if_due_ms: int | None = None
    cancelled: bool = True
    commands: tuple[Command, ...] = ()

    @classmethod
    def of(
        cls, expires_ms: int, ended: RecordStamp | None, commands: tuple[Command, ...], *, cancelled: bool
    ) -> "RememberedCommands":
        """Return the memory of an id whose last message was `ended` by a record (None: not known)."""
        stamp_ms, source = (UNKNOWN_MS, _NOBODY) if ended is None else (ended.stamp_ms, ended.source)
        return cls(stamp_ms, expires_ms, source, None, cancelled, commands)

    @property
    def ended(self) -> RecordStamp | None:
        """The stamp of the record that ended the last message."""
        return None if self.stamp_ms < 0 or self.if_due_ms is not None else RecordStamp(self.stamp_ms, self.source)

    @property
    def waiting(self) -> tuple[Command, ...]:
        """The commands that still wait for an older request."""
        if self.if_due_ms is None:
            return self.commands
        return (Command("cancel", self.source, stamp_ms=self.stamp_ms, if_due_ms=self.if_due_ms),)

    def has_ended(self, stamp: RecordStamp) -> bool:
        """Return whether the request or command with this stamp came too late to have an effect."""
        ended = self.ended
        return ended is not None and stamp.precedes(ended)


def in_order(commands: Iterable[Command]) -> tuple[Command, ...]:
    """Return commands in the order of their stamps, without duplicates; unsorted if a stamp is unknown."""
    each = tuple({command.source: command for command in commands}.values())
    if len(each) < 2 or any(command.stamp_ms < 0 for command in each):  # noqa: PLR2004 - sorting needs two
        return each
    return tuple(sorted(each, key=lambda command: (command.stamp_ms, *_place(command.source))))


commands_bytes = msgspec.msgpack.encode
decode_commands = msgspec.msgpack.Decoder(RememberedCommands).decode
