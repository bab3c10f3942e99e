"""The report of a consumer of an acknowledged queue on the topic `<app id>-queues` (http-api.md#overview)."""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Name = Annotated[str, msgspec.Meta(max_length=256)]


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer's state, and its counts since it began: the value of a record, as JSON.

    Unknown fields are ignored, so that newer consumers can add some.
    """

    topic: Name
    group: Name
    consumer: Name
    #: Whether its circuit breaker is open, how often it has opened, and how many probes have passed.
    open: bool = False
    opened: Count = 0
    probes: Count = 0
    #: Messages that are handed out and not settled.
    unacked: Count = 0
    acked: Count = 0
    nacked: Count = 0
    expired: Count = 0
    exhausted: Count = 0
    #: How far the worker is behind with the queue's markers.
    lag_ms: Count = 0

    @property
    def key(self) -> bytes:
        """The record's key."""
        return f"{self.group}/{self.topic}/{self.consumer}".encode()


def topic_of(app_id: str) -> str:
    """Return the topic of an installation's queues, which may not exist."""
    return f"{app_id}-queues"
