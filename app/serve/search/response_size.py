"""Limits the size of a response: many rows, or large rows, but not both."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

#: The maximum bytes of keys, values and headers in a response; the last message may exceed it.
MAX_BYTES: Final = 8 << 20


class ShownMessage(Protocol):
    """A message with the fields that a response shows."""

    @property
    def key(self) -> bytes | None: ...  # noqa: D102 - as of a message
    @property
    def value(self) -> bytes | None: ...  # noqa: D102
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...  # noqa: D102


_Row = TypeVar("_Row", bound=ShownMessage)


def size_of(row: ShownMessage) -> int:
    """Return the number of bytes of the message in a response."""
    return (
        len(row.key or b"") + len(row.value or b"") + sum(len(name) + len(value or b"") for name, value in row.headers)
    )


def first_that_fit(rows: Sequence[_Row], limit: int) -> Sequence[_Row]:
    """Return the first rows that fit into a response: at most `limit`, and at least one."""
    size = 0
    for count, row in enumerate(rows[:limit], 1):
        size += size_of(row)
        if size >= MAX_BYTES:
            return rows[:count]
    return rows[:limit]
