"""The new partition and key of a row when the number of partitions changes. No I/O.

A row's key has its due time, and the offset and the topic's CRC-32 of the record that set it, in its partition.
In another partition, the same offset and CRC-32 may belong to another record, now or later. So a row that moves keeps
its offset, which orders the rows of one origin, and gets a number for its origin (topic and partition) in place of the
CRC-32. These numbers are below keys.MOVED, and no input's CRC-32 is.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from app.ops.repartition.errors import TooManyOrigins
from punctual.contract.home import home_partition
from tables import Command, Position, keys
from tables.entry import decode, encode

#: A row's old partition, and the CRC-32 in its key.
Origin = tuple[int, int]


class _Head(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first fields of an entry, which suffice for most rows."""

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
    """A row's place in the new changelog."""

    partition: int
    key: bytes
    raw: bytes


class Moves:
    """The rule by which rows move to another number of partitions."""

    def __init__(self, inputs: Collection[str], partitions: int, numbers: Mapping[Origin, int]) -> None:
        """Move to `partitions` partitions; `numbers` are the numbers of the origins of rows that move."""
        self._inputs, self._partitions, self._numbers = frozenset(inputs), partitions, numbers

    def home(self, id_: str | bytes) -> int:
        """Return the home partition of an id."""
        return home_partition(id_, self._inputs, self._partitions)

    def row(self, partition: int, key: bytes, raw: bytes) -> NewPlace:
        """Return the new place of a row."""
        head = head_of(raw)
        home = self.home(head.id)
        if home == partition:
            return NewPlace(home, key, raw)
        if head.commands:
            raw = self._with_commands(partition, raw)
        offset, crc = keys.suffix_of(key)
        return NewPlace(home, keys.row_key(keys.due_of(key), offset, self._numbers[partition, crc]), raw)

    def _with_commands(self, partition: int, raw: bytes) -> bytes:
        """Return a row's value with commands that use its origin's number, as its key does."""
        entry = decode(raw)
        commands = tuple(self._command(partition, command) for command in entry.commands)
        return encode(msgspec.structs.replace(entry, commands=commands), raw[0])

    def _command(self, partition: int, command: Command) -> Command:
        if not has_place(command):
            return command
        return msgspec.structs.replace(command, topic_crc=self._numbers[partition, command.topic_crc])


def has_place(command: Command) -> bool:
    """Return whether a command on a row may give it a new key; cancels and replacements do not."""
    return bool(command.topic_crc)


def origins_of(partition: int, key: bytes, commands: Iterable[Command]) -> set[Origin]:
    """Return the origins that need a number if the row moves."""
    crcs = {keys.suffix_of(key)[1], *(command.topic_crc for command in commands if has_place(command))}
    return {(partition, crc) for crc in crcs}


def numbered(origins: Collection[Origin], used: int) -> dict[Origin, int]:
    """Return a number above `used` for each origin, the same in each run.

    Raises TooManyOrigins if there are not enough numbers.
    """
    if used + len(origins) >= keys.MOVED:
        raise TooManyOrigins(used + len(origins), keys.MOVED)
    return {origin: number for number, origin in enumerate(sorted(origins), used + 1)}


def first_forward(highest: int) -> Position:
    """Return the first position of a partition's new forwards; `highest` is the highest offset in its rows' keys.

    Forwards get higher offsets, so among messages with the same due time they come last.
    """
    return Position(0, -1, 0, highest + 1)
