"""What a partition needs of the rest of its worker."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from app.kafka.transactions.transaction import Untaken
from app.route import Route
from tables import Entry

if TYPE_CHECKING:
    from app.partition.partition import Partition


class Topics(Protocol):
    """What is known of destination topics."""

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it is not there."""
        ...

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the cluster about topics that are not known."""
        ...


class Delivery(Protocol):
    """Claimed rows on their way to one destination partition."""

    route: Route
    rows: "list[tuple[Partition, bytes]]"
    sent_ms: int

    def append(self, row: "tuple[Partition, bytes]", entry: Entry, now_ms: int) -> bool:
        """Add a row; False if it doesn't fit any more."""
        ...

    def failed(self, error: Untaken) -> None:
        """Hear that one of those in its transaction, itself or another, has not been taken."""

    def struck(self, error: Untaken) -> bool:
        """Return whether it cannot be delivered for the reason that `error` gives."""
        ...

    def untaken(self, error: Untaken) -> None:
        """Hear that the destination has not taken them."""


class Firing(Protocol):
    """What looks for due rows."""

    def notify(self, partition: "Partition") -> None:
        """Look again: there may be something to fire."""

    def top_up(self, partition: "Partition") -> None:
        """Fire what is due by now: it comes along in the step that is about to be committed."""
