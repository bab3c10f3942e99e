"""Splits concatenated JSON objects in a stream of bytes."""

import re
from collections.abc import Iterator
from typing import Final

from app.serve.messages.json_input import SPACE

_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')
_OPENS, _CLOSES = b"{[", b"}]"


class NotJson(ValueError):
    """The bytes are not a sequence of JSON objects; the message is a sentence for users."""


class Splitter:
    """Splits bytes into JSON objects; each byte is scanned once, even if the pieces are small."""

    def __init__(self, most: int) -> None:
        """Accept objects of at most `most` bytes."""
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
        """Yield the objects that end in the next piece, one at a time.

        Raises NotJson at bytes that are not an object.
        """
        self._buffer += piece
        while (end := self._end()) is not None:
            found = bytes(self._buffer[:end]).strip(SPACE)
            del self._buffer[:end]
            self._at = 0
            self._check_size(len(found))
            yield found
        self._check_size(len(self._buffer))

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise NotJson(f"A record has more than {self._most} bytes.")

    def _end(self) -> int | None:
        """Return the position after the first object, None if it has not ended."""
        buffer = self._buffer
        while True:
            match = (_INSIDE if self._in_text else _OUTSIDE).search(buffer, self._at)
            if match is None:
                if not self._depth and not self._in_text:
                    self._check_between(len(buffer))
                    buffer.clear()
                self._at = len(buffer)
                return None
            mark, place = match[0], match.start()
            if mark == b"\\":
                if place + 1 == len(buffer):
                    self._at = place
                    return None
                self._at = place + 2
                continue
            self._at = place + 1
            if mark == b'"':
                self._check_depth(place)
                self._in_text = not self._in_text
            elif mark in _OPENS:
                self._check_begin(place, mark)
                self._depth += 1
            else:
                self._check_depth(place)
                self._depth -= 1
                if not self._depth:
                    return self._at

    def _check_begin(self, place: int, mark: bytes) -> None:
        if not self._depth:
            self._check_between(place)
            if mark != b"{":
                raise NotJson("Send records as JSON objects, one after another, not in an array.")

    def _check_depth(self, place: int) -> None:
        if not self._depth:
            self._check_between(place + 1)

    def _check_between(self, end: int) -> None:
        if bytes(self._buffer[:end]).strip(SPACE):
            raise NotJson("There is something other than JSON objects.")
