"""What an installation says of itself each second, read from its progress records (records.md#progress)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicPartition

from benchmarks.topics import consumer


@dataclass(frozen=True, slots=True)
class State:
    """Sums over all partitions that have reported since a given time."""

    partitions: int
    read: int
    """Requests that have been dealt with: the sum of the positions."""
    pending: int


def summed(records: Iterable[tuple[int, Mapping[str, Any]]], topic: str, since_ms: int) -> State:
    """Sum the last record of each partition, given with its append time; those before `since_ms` do not count."""
    # A report with a state repeats the figures from before the partition was restored, or stopped.
    fresh = [record for at_ms, record in records if at_ms >= since_ms and "state" not in record]
    read = sum(record["positions"].get(topic, 0) for record in fresh)
    return State(len(fresh), read, sum(_pending(record) for record in fresh))


def _pending(record: Mapping[str, Any]) -> int:
    summed_up: int = record.get("pending_rest", {}).get("messages", 0)
    named: int = sum(record["pending"].values())
    return named + summed_up


class Progress:
    """Follows the progress topic of one installation."""

    def __init__(self, bootstrap: str, app_id: str) -> None:
        self._requests = f"{app_id}-requests"
        self._consumer = consumer(bootstrap)
        self._consumer.assign([TopicPartition(f"{app_id}-progress", 0, 0)])
        self._last: dict[bytes, tuple[int, Mapping[str, Any]]] = {}

    def state(self, since_ms: int = 0) -> State:
        """Return the present state, by records appended since `since_ms`."""
        for message in self._consumer.consume(1_000, 0.01):
            if not message.error():
                self._last[message.key()] = (message.timestamp()[1], json.loads(message.value()))
        return summed(self._last.values(), self._requests, since_ms)

    def close(self) -> None:
        """Leave Kafka alone."""
        self._consumer.close()
