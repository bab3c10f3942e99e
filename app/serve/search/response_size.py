"""Limits the size of a response: many rows, or large rows, but not both."""

from collections.abc import Sequence
from typing import Final, Protocol

from app.serve.search.pending import Base64, Shown

#: The maximum bytes of keys, values and headers in a response; the last message may exceed it.
MAX_BYTES: Final = 8 << 20


class ShownMessage(Protocol):
    """A message with the fields that a response shows, as bytes or as text."""

    @property
    def key(self) -> bytes | Shown: ...  # noqa: D102 - as of a message
    @property
    def value(self) -> bytes | Shown: ...  # noqa: D102
    @property
    def headers(self) -> Sequence[tuple[str, bytes | Shown]]: ...  # noqa: D102


def size_of(message: ShownMessage) -> int:
    """Return the number of bytes of the message in a response."""
    headers = sum(len(name) + _length(value) for name, value in message.headers)
    return _length(message.key) + _length(message.value) + headers


def _length(content: bytes | Shown) -> int:
    raw = content.base64 if isinstance(content, Base64) else content or b""
    return len(raw.encode() if isinstance(raw, str) else raw)
