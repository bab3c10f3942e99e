"""Deliveries that are part of a step: with exactly once, they are in its transaction."""

from typing import Any, Protocol

from app.engine.steps.route import Route
from app.kafka import Batch
from app.kafka.errors import SendError
from app.kafka.transactions.transaction import Untaken
from tables import Entry
from tables.changes import PlainRows


class Delivery(Protocol):
    """Claimed rows on their way to one destination partition, in one batch."""

    route: Route
    batch: Batch
    #: Keys of its rows, by partition; with exactly once there is one partition.
    runs: list[tuple[Any, list[bytes]]]
    sent_ms: int
    #: Time at which its first row was selected, by the event loop's clock.
    chosen_s: float
    #: Total bytes of the ids of its rows.
    id_bytes: int
    #: Total bytes of the next occurrences that replace its rows.
    following: int

    def append(self, row: tuple[Any, bytes], entry: Entry, now_ms: int) -> bool:
        """Add a row; return False if it does not fit."""
        ...

    def extend(self, owner: Any, rows: PlainRows, begin: int, now_ms: int) -> int:
        """Add as many plain rows of the partition `owner` as fit, from index `begin` on, and return their number."""
        ...

    def taken(self) -> None:
        """Note that the destination accepted messages."""

    def refused(self, error: SendError) -> None:
        """Note that the destination refused the delivery for good."""

    def unsent(self) -> None:
        """Put the batch in front of all waiting batches, because it left its step without being sent."""

    def failed(self, error: Untaken) -> None:
        """Let further messages for the destination wait if `error` is about this delivery."""

    def struck(self, error: Untaken) -> bool:
        """Return whether `error` keeps this delivery from being sent: it is the cause, or its destination must wait."""
        ...

    def untaken(self, error: Untaken) -> None:
        """End or release the rows of this delivery, which is removed from its step."""
