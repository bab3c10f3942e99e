"""Inspection of single changelog records: which cannot be read, and whether a later record replaces them."""

import struct
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from tables import keys
from tables.changes import decode_cold_mark, decode_delivered, decode_position
from tables.commands import decode_commands
from tables.entry import decode
from tables.errors import RecordUnreadable, TableError, UnknownRecordKind

#: All exceptions that decoding can raise, for any bytes.
GARBLED = (msgspec.MsgspecError, ValueError, ArithmeticError, IndexError, RecursionError, struct.error, TableError)
_LONG = 8
#: Counts per hour, expiry times and offsets are written as 8 bytes, and other offsets may be added to them.
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
        """Its offset in the partition."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value, None for a tombstone."""
        ...


def trouble(key: bytes, value: bytes | None) -> str | None:
    """Return why a record cannot be read, or None if it can."""
    try:
        _read(key, value)
    except GARBLED as error:
        return str(error) or repr(error)
    return None


def odd(key: bytes, value: bytes | None) -> bool:
    """Return whether an origin or position is unreadable: no table writes such a mark, and decoding accepts it."""
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
            position = decode_position(value)
            _assure(
                0 <= position.offset < _LARGEST and -_LARGEST < position.base < _LARGEST, "its offsets are not valid"
            )
            _assure(position.stamp_ms <= keys.MAX_DUE_MS, "its timestamp is not valid")
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
    """Filters out unreadable records, and remembers the ones not replaced by a later record."""

    def __init__(self, name: str, skip: Collection[int] = ()) -> None:
        """Inspect the changelog partition `name`; unreadable records at the offsets `skip` are accepted as lost."""
        self._name, self._skip = name, skip
        self._unreadable: dict[bytes, tuple[int, str]] = {}
        #: The keys of records that were accepted as lost: their true values have to be written again.
        self.skipped: set[bytes] = set()

    @property
    def clean(self) -> bool:
        """Whether no unreadable record is left so far."""
        return not self._unreadable

    def passes(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Return whether a record can be read, and remember it if it cannot."""
        why = trouble(key, value)
        if why is None or value is None:  # an unreadable key belongs to no row, so its tombstone has no effect
            self._unreadable.pop(key, None)
        elif offset in self._skip:
            self._unreadable.pop(key, None)
            self.skipped.add(key)
        else:
            self._unreadable[key] = (offset, why)
        return why is None

    def conclude(self) -> None:
        """Raise RecordUnreadable if an unreadable record is left."""
        if self._unreadable:
            offset, why = min(self._unreadable.values())
            raise RecordUnreadable(self._name, offset, why, len(self._unreadable))
