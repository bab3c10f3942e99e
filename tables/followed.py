"""Which changelog a database is a copy of, and what the changelog says of its own beginning.

A changelog is only compacted, so its first offset is 0 for ever. One that begins later has lost records, and one with
another topic id was deleted and created again: neither is complete until a complete database has been written to it.
"""

import msgspec

from tables.changes import Position

#: What stands for a changelog's CRC-32 in its head: whether everything that counts is in it.
WHOLE, UNFINISHED = 0, 1


class Followed(msgspec.Struct, array_like=True, frozen=True):
    """The changelog of a database.

    `log` is the topic id, "" if it is not known. The database is restored from the offset `begun` on; until it is known
    to be complete it is `restoring`. While `writing`, it is being written to the changelog, which lacks some of it.
    """

    log: str = ""
    begun: int = 0
    restoring: bool = False
    writing: bool = False


followed_bytes = msgspec.msgpack.encode
decode_followed = msgspec.msgpack.Decoder(Followed).decode


def head_at(offset: int, state: int) -> Position:
    """Return what a changelog says of its beginning: from `offset` on it is WHOLE, or UNFINISHED."""
    return Position(offset, -1, state)


def whole_from(head: Position | None) -> int:
    """Return the first offset from which on the changelog is known to be complete, by what it says; 0 if nothing."""
    return head.offset if head is not None and head.crc == WHOLE else 0


def unfinished(head: Position | None) -> bool:
    """Return whether a database was being written to the changelog, and not all of it is there."""
    return head is not None and head.crc == UNFINISHED
