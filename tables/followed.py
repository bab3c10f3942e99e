"""The changelog that a database is a copy of, and the changelog's own record about its beginning.

A changelog is only compacted, so its first offset is 0 for ever. One that begins later has lost records, and one with
another topic id was deleted and created again: neither is complete until a complete database has been written to it.
"""

import msgspec

from tables.changes import Position

#: The values that a changelog's head has in place of a CRC-32: whether the changelog is complete.
WHOLE, UNFINISHED = 0, 1


class Followed(msgspec.Struct, array_like=True, frozen=True):
    """The changelog of a database.

    `log` is the topic id, or "" if it is not known. The database is restored from the offset `begun` on, and is
    `restoring` until it is known to be complete. While `writing`, the database is being written to the changelog,
    which lacks a part until that has ended.
    """

    log: str = ""
    begun: int = 0
    restoring: bool = False
    writing: bool = False


followed_bytes = msgspec.msgpack.encode
decode_followed = msgspec.msgpack.Decoder(Followed).decode


def head_at(offset: int, state: int) -> Position:
    """Return the head of a changelog that is WHOLE or UNFINISHED, by `state`, from `offset` on."""
    return Position(offset, -1, state)


def whole_from(head: Position | None) -> int:
    """Return the first offset from which on the changelog is complete, according to its head; 0 without a head."""
    return head.offset if head is not None and head.crc == WHOLE else 0


def unfinished(head: Position | None) -> bool:
    """Return whether the database was still being written to the changelog, which therefore lacks a part."""
    return head is not None and head.crc == UNFINISHED
