"""How large a response may become: many rows, or large ones, and never both."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

#: The maximum of bytes of keys, values and headers in a response; the last message may go beyond it.
MAX_BYTES: Final = 8 << 20


class ShownMessage(Protocol):
    """A message as it is shown."""

    @property
    def key(self) -> bytes | None: ...  # noqa: D102 - as of a message
    @property
    def value(self) -> bytes | None: ...  # noqa: D102
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...  # noqa: D102


_Row = TypeVar("_Row", bound=ShownMessage)


def size_of(row: ShownMessage) -> int:
    """Return how many bytes of the message are shown."""
    return (
        len(row.key or b"") + len(row.value or b"") + sum(len(name) + len(value or b"") for name, value in row.headers)
    )


def first_that_fit(rows: Sequence[_Row], limit: int) -> Sequence[_Row]:
    """Return the first rows that a response has room for: at most `limit`, and at least one."""
    size = 0
    for count, row in enumerate(rows[:limit], 1):
        size += size_of(row)
        if size >= MAX_BYTES:
            return rows[:count]
    return rows[:limit]
