"""Splits concatenated JSON objects in a stream of bytes."""

import re
from collections.abc import Iterator
from typing import Final

from app.serve.messages.json_input import SPACE

_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')
_OPENS: Final = b"{["


class NotJson(ValueError):
    """The bytes are not a sequence of JSON objects; the message is a sentence for users."""


class Splitter:
    """Splits bytes into JSON objects; each byte is scanned once, even if the pieces are small."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        #: The position up to which the buffer was scanned, and the depth of nesting there.
        self._at = self._depth = 0
        self._in_text = False

    @property
    def is_amid(self) -> bool:
        """Whether an object has begun and not ended."""
        return bool(self._buffer.strip(SPACE))

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the objects that end in the next piece, one at a time. Raises NotJson at other bytes."""
        self._buffer += piece
        while (end := self._end()) is not None:
            record = bytes(self._buffer[:end]).strip(SPACE)
            del self._buffer[:end]
            self._at = 0
            self._check_size(len(record))
            yield record
        self._check_size(len(self._buffer))

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise NotJson(f"A record has more than {self._most} bytes.")

    def _end(self) -> int | None:
        """Return the position after the first object, None if it has not ended."""
        buffer = self._buffer
        while match := (_INSIDE if self._in_text else _OUTSIDE).search(buffer, self._at):
            mark, place = match[0], match.start()
            if mark == b"\\":
                self._at = place
                if place + 1 == len(buffer):
                    return None
                self._at += 2
                continue
            self._check_between(place, mark)
            self._at = place + 1
            if mark == b'"':
                self._in_text = not self._in_text
                continue
            self._depth += 1 if mark in _OPENS else -1
            if not self._depth:
                return self._at
        self._check_between(len(buffer), b"{")
        if not self._depth:
            buffer.clear()
        self._at = len(buffer)
        return None

    def _check_between(self, end: int, mark: bytes) -> None:
        """Raise NotJson unless blanks and an object follow the object before; `mark` is at `end`."""
        if self._depth:
            return
        if bytes(self._buffer[:end]).strip(SPACE) or mark not in _OPENS:
            raise NotJson("There is something other than JSON objects.")
        if mark != b"{":
            raise NotJson("Send records as JSON objects, one after another, not in an array.")
