"""What a partition needs of the rest of its worker."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.engine.partition.partition import Partition


class TopicPartitions(Protocol):
    """What is known of destination topics."""

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it is not there."""
        ...

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the cluster about topics that are not known."""
        ...


class Firing(Protocol):
    """What looks for due rows."""

    def notify(self, partition: "Partition") -> None:
        """Look again: there may be something to fire."""

    def abandon(self, partition: "Partition") -> None:
        """Send nothing more of a partition that works no more."""

    def top_up(self, partition: "Partition") -> None:
        """Fire what is due by now: it comes along in the step that is about to be committed."""
