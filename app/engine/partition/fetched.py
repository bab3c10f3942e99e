"""How far a partition has come in what it reads."""

from typing import Protocol

from app.engine.partition.partition import Partition


class FetchedPositions(Protocol):
    """What is known of the consumer."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records have been fetched and ingested, or None if not known."""


def has_ingested(partition: Partition, fetched: FetchedPositions, topic: str, end: int) -> bool:
    """Return whether all that stands before `end` in a topic's partition is in the table, or is no record."""
    position = partition.store.positions.get(topic)
    if not end or (position is not None and position.offset >= end):
        return True
    reached = fetched.position(topic, partition.number)  # beyond the last record lie only control records
    return reached is not None and reached >= end and partition.idle
