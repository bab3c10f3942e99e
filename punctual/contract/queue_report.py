"""What a consumer of an acknowledged queue says of itself on the topic `<app id>-queues` (http-api.md#overview)."""

import msgspec


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer's counts since it began, and how it is: the value of a record, as JSON.

    Unknown fields are ignored, so that newer consumers can add some.
    """

    topic: str
    group: str
    consumer: str
    #: Whether its circuit breaker is open, how often it has opened, and how many probes have passed.
    open: bool = False
    opened: int = 0
    probes: int = 0
    #: Messages that are handed out and not settled.
    unacked: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    exhausted: int = 0
    #: How far the worker is behind with its markers.
    lag_ms: int = 0

    @property
    def key(self) -> bytes:
        """The record's key."""
        return f"{self.group}/{self.topic}/{self.consumer}".encode()


def topic_of(app_id: str) -> str:
    """Return the topic of an installation's queues, which need not be there."""
    return f"{app_id}-queues"
