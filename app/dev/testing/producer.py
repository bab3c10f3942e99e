"""What a client sends with in a test: it stands where the client has its producer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.dev.testing.records import Record
from punctual.client.requests import Request

if TYPE_CHECKING:
    from app.dev.testing.delayed import Delayed


class SimulatedProducer:
    """Writes to a simulated installation; safe for any thread and event loop."""

    spoiled = False

    def __init__(self, delayed: "Delayed") -> None:
        """Write to `delayed`."""
        self._delayed = delayed

    async def look(self) -> None:
        """Know all topics already."""

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, 0 when it does not exist."""
        return self._delayed.partitions(topic)

    def available(self, topic: str) -> list[int]:
        """Return the topic's partitions."""
        return list(range(self.partitions(topic)))

    async def queue(self, topic: str, partition: int, request: Request) -> "asyncio.Future[Record]":
        """Write a record, and return the future of what is known of it."""
        written: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        written.set_result(self._write(topic, partition, request))
        return written

    async def queue_all(
        self, topic: str, by_partition: Mapping[int, Sequence[Request]]
    ) -> "list[asyncio.Future[Record]]":
        """Write records, and return their futures."""
        return [await self.queue(topic, number, one) for number, requests in by_partition.items() for one in requests]

    async def close(self, seconds: float) -> None:
        """Have nothing to wait for."""

    def _write(self, topic: str, partition: int, request: Request) -> Record:
        return self._delayed.produce(request.headers, request.value, key=request.key, topic=topic, partition=partition)


def opening(delayed: "Delayed") -> Any:
    """Return what opens a producer in a test, in the place of punctual.client.producer.Producer.open."""

    async def open_(*_: Any) -> SimulatedProducer:
        return SimulatedProducer(delayed)

    return open_
