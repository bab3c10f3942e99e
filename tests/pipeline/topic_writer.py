"""Writes requests, events and progress reports as producers and workers do, for tests without a worker."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from app.engine.reports import progress
from pipeline.context import JobContext
from punctual.contract.events import Event, Kind, encode
from punctual.contract.home import home_partition
from tests.pipeline.conftest import PARTITIONS, Produce

NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


class TopicWriter:
    """Writes to the topics of one installation."""

    def __init__(self, context: JobContext, produce: Produce) -> None:
        self._context, self._produce = context, produce
        self.requests = context.topic("requests")
        #: The end offset of each partition, and the position of a worker that has read all records.
        self.ends: Counter[tuple[str, int]] = Counter()

    def append(self, name: str, value: bytes | None, partition: int, **record: Any) -> str:
        """Append a record to one of the installation's topics; return its topic, partition and offset as one string."""
        topic = self._context.topic(name)
        self._produce(topic, value, partition=partition, **record)
        self.ends[topic, partition] += 1
        return f"{topic}-{partition}-{self.ends[topic, partition] - 1}"

    def home(self, id_: str) -> int:
        """Return the home partition of an id."""
        return home_partition(id_, (self.requests,), PARTITIONS)

    def request(self, id_: str | None = None, due_ms: int = NOW_MS, to: str = "orders", **record: Any) -> str:
        """Write a request that schedules a message; return its source."""
        own_headers = {"delay-to": to, "delay-at": str(due_ms), **({} if id_ is None else {"delay-id": id_})}
        partition = record.pop("partition", 0 if id_ is None else self.home(id_))
        headers = [*own_headers.items(), *record.pop("headers", ())]
        return self.append("requests", record.pop("value", b"v"), partition, headers=headers, **record)

    def event(self, kind: Kind, source: str, id_: str | None = None, **fields: Any) -> str:
        """Write an event; return its topic, partition and offset as one string."""
        id_ = source if id_ is None else id_
        fields = {"to": "orders", "due": NOW_MS, "at": NOW_MS, **fields}
        event = encode(Event(event=kind, id=id_, source=source, **fields))
        return self.append("events", event, self.home(id_), key=id_)

    def life(self, source: str, id_: str | None = None, ending: Kind = "delivered", **fields: Any) -> None:
        """Write the `accepted` event of a message and the event of its ending."""
        self.event("accepted", source, id_, **fields)
        delivery = {"late": 5, "delivered": f"orders-0-{sum(self.ends.values())}"} if ending == "delivered" else {}
        self.event(ending, source, id_, **delivery, **fields)

    def progress(self, fired_to: int = NOW_MS, pending: Mapping[int, int] | None = None, **fields: Any) -> None:
        """Write a progress report of each partition; `positions` are by default the ends of the inputs."""
        for number in range(PARTITIONS):
            topics = (self.requests, self._context.topic("forwards"))
            report = {
                "partition": number,
                "at": fired_to,
                "fired_to": fired_to,
                "positions": {topic: self.ends[topic, number] for topic in topics},
                "pending": {"orders": (pending or {}).get(number, 0)},
                "overdue": 0,
                "next_due": None,
                "held": {},
                "lateness": {},
                "worker": "http://127.0.0.1:6066",
                "version": "0",
                **fields,
            }
            self.append("progress", progress.encode(report), 0, key=str(number))
