"""Kafka records as the decoders of requests read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Record(Protocol):
    """A Kafka record: `timestamp` in epoch milliseconds, a header's value may be None."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class PlainRecord:
    """A record made from its fields, without a consumer."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
