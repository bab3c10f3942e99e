"""Where a row goes when the number of partitions changes, and under which key. No I/O.

A row's key is its due time, and the offset and the topic's CRC-32 of the record that set it, in its partition.
In another partition the same two numbers may stand for another record, now or when its logs get that far. So a row
that moves keeps its offset, which orders it among those it comes with, and gets a number in place of the CRC-32 that
stands for where it comes from: topic and partition. These numbers are below keys.MOVED, where no input's CRC-32 is.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from app.ops.repartition.errors import TooManyOrigins
from punctual.contract.home import home_partition
from tables import Command, Position, keys
from tables.entry import decode, encode

#: A row's old partition and the CRC-32 in its key.
Origin = tuple[int, int]


class _Head(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first fields of an entry, which is all that most rows are looked at for."""

    id: str
    to: str
    key: msgspec.Raw
    value: msgspec.Raw
    headers: msgspec.Raw
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


_head = msgspec.msgpack.Decoder(_Head).decode


def head_of(raw: bytes) -> _Head:
    """Return the first fields of a row's value."""
    return _head(memoryview(raw)[1:])


class NewPlace(NamedTuple):
    """Where a row is in the new changelog."""

    partition: int
    key: bytes
    raw: bytes


class Moves:
    """The rule by which rows move from one number of partitions to another."""

    def __init__(self, inputs: Collection[str], partitions: int, numbers: Mapping[Origin, int]) -> None:
        """Move to so many `partitions`; `numbers` stand for where rows come from that change theirs."""
        self._inputs, self._partitions, self._numbers = frozenset(inputs), partitions, numbers

    def home(self, id_: str | bytes) -> int:
        """Return the partition where an id lives."""
        return home_partition(id_, self._inputs, self._partitions)

    def row(self, partition: int, key: bytes, raw: bytes) -> NewPlace:
        """Return where a row of a partition goes."""
        head = head_of(raw)
        home = self.home(head.id)
        if home == partition:
            return NewPlace(home, key, raw)
        if head.commands:
            raw = self._with_commands(partition, raw)
        offset, crc = keys.suffix_of(key)
        return NewPlace(home, keys.row_key(keys.due_of(key), offset, self._numbers[partition, crc]), raw)

    def _with_commands(self, partition: int, raw: bytes) -> bytes:
        """Return a row's value whose commands make keys of where they come from, as its own key does."""
        entry = decode(raw)
        commands = tuple(self._command(partition, command) for command in entry.commands)
        return encode(msgspec.structs.replace(entry, commands=commands), raw[0])

    def _command(self, partition: int, command: Command) -> Command:
        if not has_place(command):
            return command
        return msgspec.structs.replace(command, topic_crc=self._numbers[partition, command.topic_crc])


def has_place(command: Command) -> bool:
    """Return whether a command on a row may make another key of it; cancels and replacements have no use for one."""
    return bool(command.topic_crc)


def origins_of(partition: int, key: bytes, commands: Iterable[Command]) -> set[Origin]:
    """Return the origins that a row needs numbers for if it moves."""
    crcs = {keys.suffix_of(key)[1], *(command.topic_crc for command in commands if has_place(command))}
    return {(partition, crc) for crc in crcs}


def numbered(origins: Collection[Origin], used: int) -> dict[Origin, int]:
    """Return a number for each origin: the same ones each time, and none that is up to the highest `used` before.

    Raises TooManyOrigins if there are not enough.
    """
    if used + len(origins) >= keys.MOVED:
        raise TooManyOrigins(used + len(origins), keys.MOVED)
    return {origin: number for number, origin in enumerate(sorted(origins), used + 1)}


def first_forward(highest: int) -> Position:
    """Return where a partition begins to read its new forwards, if `highest` is the highest offset in its rows' keys.

    What is forwarded there counts from higher ones on: of messages that are due at the same time it comes last.
    """
    return Position(0, -1, 0, highest + 1)
