"""Deliveries that are part of a step: exactly once, they are in its transaction."""

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
    #: The keys of its rows, with their partition: exactly once that is one.
    runs: list[tuple[Any, list[bytes]]]
    sent_ms: int
    #: When its first row was chosen to be sent, by the event loop's clock.
    chosen_s: float
    #: Bytes of the ids of its rows.
    id_bytes: int
    #: Bytes of the next occurrences that take the place of its rows.
    following: int

    def append(self, row: tuple[Any, bytes], entry: Entry, now_ms: int) -> bool:
        """Add a row; False if it doesn't fit any more."""
        ...

    def extend(self, owner: Any, rows: PlainRows, begin: int, now_ms: int) -> int:
        """Add plain rows of a partition, from the one at `begin` on, as far as they fit; return how many."""
        ...

    def taken(self) -> None:
        """Hear that the destination takes messages."""

    def refused(self, error: SendError) -> None:
        """Hear that the destination will never take it."""

    def failed(self, error: Untaken) -> None:
        """Hear that one of those in its transaction, itself or another, has not been taken."""

    def struck(self, error: Untaken) -> bool:
        """Return whether it cannot be delivered for the reason that `error` gives."""
        ...

    def untaken(self, error: Untaken) -> None:
        """Hear that the destination has not taken them."""
