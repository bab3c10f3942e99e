"""The counts of a queue since it was created, for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Counts of messages."""

    received: int = 0
    """Taken from the topic, their start markers in Kafka."""
    redelivered: int = 0
    """Of these, not for the first time."""
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    """Neither acknowledged nor refused in time: the marker brings them back."""
    released: int = 0
    """Given back without an attempt, for the breaker had opened or the queue was closed."""
    exhausted: int = 0
    """Dead letters, after their last attempt."""
