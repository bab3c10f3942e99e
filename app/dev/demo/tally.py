"""The counts of a run, and the lateness of its messages."""

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Literal

Arrival = Literal["arrived", "extra", "other"]
"""A message that was waited for; one of this run that came again or in spite of its cancel; one of another run."""


class DemoTally:
    """Counts messages, and knows which are still to come; lateness is in milliseconds."""

    def __init__(self) -> None:
        """Begin with all counts at zero."""
        self.cancelled = self.rescheduled = self.arrived = self.extra = 0
        self._sent: set[str] = set()
        self._waiting: set[str] = set()
        self._late_ms: Counter[int] = Counter()

    def send(self, message_id: str) -> None:
        """Count a message that Kafka has acknowledged."""
        self._sent.add(message_id)
        self._waiting.add(message_id)

    def cancel(self, message_id: str) -> None:
        """Count a cancel that Kafka has acknowledged."""
        self.cancelled += 1
        self._waiting.discard(message_id)

    def arrive(self, message_id: str, late_ms: int) -> Arrival:
        """Count an arrival, and return its kind."""
        if message_id not in self._sent:
            return "other"
        if message_id not in self._waiting:
            self.extra += 1
            return "extra"
        self._waiting.discard(message_id)
        self.arrived += 1
        self._late_ms[late_ms] += 1
        return "arrived"

    def is_waiting(self, message_id: str) -> bool:
        """Return whether the message is still to come."""
        return message_id in self._waiting

    def summary(self) -> str:
        """Return the counts and percentiles as one line."""
        parts = [
            f"sent {len(self._sent)}",
            f"cancelled {self.cancelled}",
            f"moved {self.rescheduled}",
            f"arrived {self.arrived}",
            f"waiting {len(self._waiting)}",
        ]
        if self.extra:
            parts.append(f"extra {self.extra}")
        if self._late_ms:
            p50, p99 = percentiles(self._late_ms, (0.5, 0.99))
            parts.append(f"late p50 {p50} ms, p99 {p99} ms")
        return " · ".join(parts)


def percentiles(counts: Counter[int], shares: Iterable[float]) -> list[int]:
    """Return for each share the smallest counted value that at least this share of all values does not exceed."""
    ordered, total, result = sorted(counts.items()), counts.total(), []
    for share in shares:
        rank, seen = max(1, ceil(share * total)), 0
        for value, count in ordered:
            seen += count
            if seen >= rank:
                result.append(value)
                break
    return result
