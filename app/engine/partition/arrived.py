"""A row that its destination has, though that was not written down when its last owner died."""

from typing import NamedTuple


class ArrivedRow(NamedTuple):
    """A row that has arrived: its key, the source of its message, where the copy is, and its timestamp."""

    row: bytes
    source: str
    topic: str
    partition: int
    offset: int
    at_ms: int
