"""What requests and held messages have in common: content, destination and policies, field by field."""

from typing import Protocol

from punctual.contract.request import Headers


class Message(Protocol):
    """A message as its sender has asked for it. A request that is decoded is one, and so is the row that it becomes.

    The two structs have these fields each for itself: both are encoded as arrays, in orders of their own that are
    frozen, and the table, which has the row, knows nothing of requests. What says them in headers, and the row that a
    request becomes, are each made in one place: `native.again` and app/engine/ingest/pending_rows.py.
    """

    @property
    def id(self) -> str:
        """Its id: the sender's, or the source."""

    @property
    def to(self) -> str:
        """The topic to deliver to."""

    @property
    def key(self) -> bytes | None:
        """Its key, which is delivered as it is."""

    @property
    def value(self) -> bytes | None:
        """Its value, which is delivered as it is."""

    @property
    def headers(self) -> Headers:
        """The user's own headers."""

    @property
    def source(self) -> str:
        """The record that has asked for it: `topic-partition-offset`."""

    @property
    def partition(self) -> int | None:
        """The partition to deliver to; None leaves it to the key."""

    @property
    def cluster(self) -> str | None:
        """The cluster to deliver to by its name; None is our own."""

    @property
    def max_late_ms(self) -> int | None:
        """How late a delivery still makes sense; None is ever so late."""

    @property
    def if_late(self) -> str | None:
        """What happens past that: deliver, drop or dead-letter."""

    @property
    def dedupe_ms(self) -> int | None:
        """How long its delivery is remembered; None is as the installation is set."""

    @property
    def on_failure(self) -> str | None:
        """The URL that is told when it cannot be accepted or delivered."""

    @property
    def no_later_ms(self) -> int | None:
        """How long after the first request of its id it is due at the latest; None is ever so late."""
