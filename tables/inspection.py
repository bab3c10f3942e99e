"""Changelog records looked at one by one: which of them cannot be read, and whether a later one has mended it."""

import struct
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from tables import keys
from tables.changes import decode_cold_mark, decode_delivered, decode_position
from tables.commands import decode_commands
from tables.entry import decode
from tables.errors import RecordUnreadable, TableError, UnknownRecordKind

#: What decoding can raise, whatever the bytes.
GARBLED = (msgspec.MsgspecError, ValueError, ArithmeticError, IndexError, RecursionError, struct.error, TableError)
_LONG = 8
#: Rows' counts per hour, expiry times and offsets are written as 8 bytes, offsets with others added to them.
_LARGEST = 1 << 62

_MARKS: dict[bytes, Callable[[bytes], Any]] = {
    keys.DELIVERED: decode_delivered,
    keys.COMMANDS: decode_commands,
    keys.COLD: decode_cold_mark,
}


class ChangelogRecord(Protocol):
    """A changelog record and its place."""

    @property
    def offset(self) -> int:
        """Where it is."""
        ...

    @property
    def key(self) -> bytes | None:
        """What it is about."""
        ...

    @property
    def value(self) -> bytes | None:
        """What it says, None for a tombstone."""
        ...


def trouble(key: bytes, value: bytes | None) -> str | None:
    """Say why a record cannot be read, or give None."""
    try:
        _read(key, value)
    except GARBLED as error:
        return str(error) or repr(error)
    return None


def odd(key: bytes, value: bytes | None) -> bool:
    """Return whether a mark is one that no table writes, and that nothing else would notice."""
    return key[:1] in (keys.ORIGIN, keys.POSITION) and value is not None and trouble(key, value) is not None


def _read(key: bytes, value: bytes | None) -> None:
    kind = key[:1]
    if keys.is_row(key):
        _assure(len(key) == keys.ROW_SIZE, f"the key of a row must have {keys.ROW_SIZE} bytes, not {len(key)}")
        if value is not None:
            decode(value)
    elif kind in _MARKS:
        key[1:].decode()
        if value is not None:
            _assure(0 <= _MARKS[kind](value).expires_ms < _LARGEST, "its expiry is not a valid time")
    elif kind == keys.POSITION:
        key[1:].decode()
        if value is not None:
            found = decode_position(value)
            _assure(0 <= found.offset < _LARGEST and -_LARGEST < found.base < _LARGEST, "its offsets are not valid")
            _assure(found.stamp_ms <= keys.MAX_DUE_MS, "its timestamp is not valid")
    elif kind == keys.SEAL:
        _assure(len(key) == 1, "a seal has no name")
    elif kind in (keys.ORIGIN, keys.WRITER):
        _assure(value is None or len(value) == _LONG, f"its value must have {_LONG} bytes")
    else:
        raise UnknownRecordKind(key)


def _assure(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise ValueError(otherwise)


class Inspection:
    """Takes records out that cannot be read, and knows of which nothing better has been written since."""

    def __init__(self, name: str, skip: Collection[int] = ()) -> None:
        """Look at the changelog partition called `name`; records at the offsets `skip` are left out for good."""
        self._name, self._skip = name, skip
        self._found: dict[bytes, tuple[int, str]] = {}
        #: Keys of what was left out for good: the truth about them has to be written again.
        self.skipped: set[bytes] = set()

    @property
    def clean(self) -> bool:
        """Whether all is well so far."""
        return not self._found

    def passes(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Return whether a record can be read, and note it if it cannot."""
        why = trouble(key, value)
        if why is None or value is None:  # a tombstone of what nobody knows removes nothing
            self._found.pop(key, None)
        elif offset in self._skip:
            self._found.pop(key, None)
            self.skipped.add(key)
        else:
            self._found[key] = (offset, why)
        return why is None

    def conclude(self) -> None:
        """Raise RecordUnreadable if something is left that cannot be read."""
        if self._found:
            offset, why = min(self._found.values())
            raise RecordUnreadable(self._name, offset, why, len(self._found))
