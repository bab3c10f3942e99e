"""The common fields of requests and pending messages: content, destination and policies."""

from typing import Protocol

from punctual.contract.request import Headers


class Message(Protocol):
    """A message as its sender requested it: both a decoded request and its row have these fields.

    Each of the two structs declares them itself: both are encoded as arrays with their own frozen orders, and the
    table, which has the row, does not depend on requests. One place each turns a message into headers, and a request
    into a row: `native.again` and app/engine/ingest/pending_rows.py.
    """

    @property
    def id(self) -> str:
        """Its id: the sender's, or the source."""

    @property
    def to(self) -> str:
        """The topic to deliver to."""

    @property
    def key(self) -> bytes | None:
        """Its key, which is delivered unchanged."""

    @property
    def value(self) -> bytes | None:
        """Its value, which is delivered unchanged."""

    @property
    def headers(self) -> Headers:
        """The user's own headers."""

    @property
    def source(self) -> str:
        """The record that requested it: `topic-partition-offset`."""

    @property
    def partition(self) -> int | None:
        """The partition to deliver to; None chooses it by the key."""

    @property
    def cluster(self) -> str | None:
        """The name of the cluster to deliver to; None is our own."""

    @property
    def max_late_ms(self) -> int | None:
        """The maximum lateness of a delivery; None means no limit."""

    @property
    def if_late(self) -> str | None:
        """The action beyond the maximum lateness: deliver, drop or dead-letter."""

    @property
    def dedupe_ms(self) -> int | None:
        """How long its delivery is remembered; None uses the installation's setting."""

    @property
    def on_failure(self) -> str | None:
        """The URL that is notified if it cannot be accepted or delivered."""

    @property
    def no_later_ms(self) -> int | None:
        """The maximum delay after the first request of its id; None means no limit."""
