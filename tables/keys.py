"""Keys of the table: bytes that sort by due time, then arrival.

A row's key is `due_ms (8) ‖ offset (8) ‖ CRC-32 of the topic (4)`, big-endian, where offset and topic are those of the
record that set the due time. It begins with a zero byte (due times are below 2**56 ms, two million years), so every
other kind of key begins with a letter and sorts after all rows.
"""

import struct
import zlib
from collections.abc import Iterable

_ROW = struct.Struct(">QQI")
_LONG = struct.Struct(">Q")
_due = _LONG.unpack_from

ROW_SIZE = _ROW.size
MAX_DUE_MS = (1 << 55) - 1

#: Kinds of keys that are in the changelog and in the database.
DELIVERED, COMMANDS, ORIGIN, POSITION, SEAL, COLD, WRITER = b"d", b"c", b"o", b"p", b"s", b"t", b"w"
#: The position without a topic: the changelog is complete from this offset on.
HEAD = POSITION
#: Kinds of keys that are only in the database, and are rebuilt from the others.
BUCKET, EXPIRY, ID, META, COUNT, SHARE = b"b", b"e", b"i", b"m", b"n", b"s"

#: One past the last row key.
ROWS_END = b"\x01"

#: Rows that come from another partition's changelog have a number below this in place of a topic's CRC-32
#: (app/ops/repartition/moves.py). Once partitions have been rewritten, no input's name may have such a CRC-32.
MOVED = 1 << 20

#: Due times are counted per hour: 5 years are 43,800 counters, whatever the number of messages.
BUCKET_MS = 3_600_000


def topic_crc(topic: str) -> int:
    """Return the number that stands for `topic` in row keys."""
    return zlib.crc32(topic.encode())


def row_key(due_ms: int, offset: int, crc: int) -> bytes:
    """Return the key of the row due at `due_ms`, set by the record at `offset` of the topic whose CRC-32 is `crc`."""
    return _ROW.pack(due_ms, offset, crc)


def suffix_of(key: bytes) -> tuple[int, int]:
    """Return the offset and the CRC-32 in a row key; together they are unique in a partition."""
    return int.from_bytes(key[8:16], "big"), int.from_bytes(key[16:], "big")


def with_due(key: bytes, due_ms: int) -> bytes:
    """Return a row key with another due time, and the rest of `key`."""
    return _LONG.pack(due_ms) + key[8:]


def due_of(key: bytes) -> int:
    """Return the due time of a row key, in epoch milliseconds."""
    due_ms: int
    (due_ms,) = _due(key)
    return due_ms


def dues_of(rows: Iterable[bytes]) -> list[int]:
    """Return the due times of many row keys."""
    return [due_ms for due_ms, _, _ in _ROW.iter_unpack(b"".join(rows))]


def is_row(key: bytes) -> bool:
    """Return whether `key` is a row's."""
    return key[:1] == b"\x00"


def is_local(key: bytes) -> bool:
    """Return whether `key` is of a kind that the changelog never has."""
    return key[:1] in (BUCKET, EXPIRY, ID, META, COUNT, SHARE)


def due_bound(due_ms: int) -> bytes:
    """Return the smallest key that is due after `due_ms`: an exclusive upper bound of the keys due by then."""
    return _LONG.pack(due_ms + 1)


def span(kind: bytes) -> tuple[bytes, bytes]:
    """Return the first key of a kind, and the exclusive end of the kind's keys."""
    return kind, kind[:-1] + bytes([kind[-1] + 1])


def long_bytes(number: int) -> bytes:
    """Pack a non-negative `number` into 8 bytes that sort."""
    return _LONG.pack(number)


def expiry_key(kind: bytes, expires_ms: int, id_bytes: bytes) -> bytes:
    """Return the index key by which an id's mark of this kind expires."""
    return EXPIRY + kind + _LONG.pack(expires_ms) + id_bytes


def origin_key(topic: str, partition: int) -> bytes:
    """Return the key of the offset up to which forwards from this partition have been applied."""
    return ORIGIN + f"{topic}-{partition}".encode()
