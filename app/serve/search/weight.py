"""How heavy an answer may become: rows are many, or large, and never both."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

#: So many bytes of keys, values and headers an answer has, and one message more at most.
MOST: Final = 8 << 20


class Shown(Protocol):
    """A message as it is shown."""

    @property
    def key(self) -> bytes | None: ...  # noqa: D102 - as of a message
    @property
    def value(self) -> bytes | None: ...  # noqa: D102
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...  # noqa: D102


_Row = TypeVar("_Row", bound=Shown)


def weight(row: Shown) -> int:
    """Return how many bytes of the message are shown."""
    return (
        len(row.key or b"") + len(row.value or b"") + sum(len(name) + len(value or b"") for name, value in row.headers)
    )


def first(rows: Sequence[_Row], limit: int) -> Sequence[_Row]:
    """Return the first rows: at most `limit`, and one at least, that an answer has room for."""
    weighed = 0
    for count, row in enumerate(rows[:limit], 1):
        weighed += weight(row)
        if weighed >= MOST:
            return rows[:count]
    return rows[:limit]
