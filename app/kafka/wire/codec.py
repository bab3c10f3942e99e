"""Encodes one kind of request, and decodes its answer.

aiokafka encodes and decodes field by field, through an object for each field (aiokafka/protocol/types.py).
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")


class Codec(NamedTuple):
    """One version of one kind of request.

    `pack` returns the parts of the body after a request's header; `unpack` decodes an answer, whose first four bytes
    are the number of its request.
    """

    api_key: int
    version: int
    pack: Callable[[Any], list[bytes]]
    unpack: Callable[[bytes], Any]


def text(value: str | None) -> bytes:
    """Return a string with its length before it."""
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    return INT16.pack(len(raw)) + raw


def text_at(frame: bytes, at: int) -> tuple[str, int]:
    """Return the string that begins at an offset, and the offset after it."""
    begin = at + 2
    end = begin + INT16.unpack_from(frame, at)[0]
    return frame[begin:end].decode(), end
