"""The counts of a queue since it was created, for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Counts of messages."""

    received: int = 0
    """Messages that were fetched and handed out, with their start markers in Kafka."""
    redelivered: int = 0
    """Received messages that had been delivered before."""
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    """Messages neither acknowledged nor refused in time, which their markers deliver again."""
    released: int = 0
    """Messages returned without an attempt, because the breaker had opened or the queue was closed."""
    exhausted: int = 0
    """Messages that became dead letters after their last attempt."""
