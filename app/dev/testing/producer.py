"""The producer of clients in tests, in place of punctual.client.producer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.dev.testing.records import Record
from punctual.client.requests import Request

if TYPE_CHECKING:
    from app.dev.testing.delayed import Delayed


class SimulatedProducer:
    """Writes to a simulated installation; safe in any thread and event loop."""

    spoiled = False

    def __init__(self, delayed: "Delayed") -> None:
        """Write to `delayed`."""
        self._delayed = delayed

    async def look(self) -> None:
        """Do no work, because all topics are known."""

    def partitions(self, topic: str) -> int:
        """Return the topic's number of partitions, 0 if it does not exist."""
        return self._delayed.partitions(topic)

    def available(self, topic: str) -> list[int]:
        """Return the topic's partitions."""
        return list(range(self.partitions(topic)))

    async def queue(self, topic: str, partition: int, request: Request) -> "asyncio.Future[Record]":
        """Write a record, and return a completed future with it."""
        written: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        written.set_result(self._write(topic, partition, request))
        return written

    async def queue_all(
        self, topic: str, by_partition: Mapping[int, Sequence[Request]]
    ) -> "list[asyncio.Future[Record]]":
        """Write records, and return their futures."""
        return [await self.queue(topic, number, one) for number, requests in by_partition.items() for one in requests]

    async def close(self, seconds: float) -> None:
        """Do no work: every record is written at once."""

    def _write(self, topic: str, partition: int, request: Request) -> Record:
        return self._delayed.produce(request.headers, request.value, key=request.key, topic=topic, partition=partition)


def opening(delayed: "Delayed") -> Any:
    """Return the replacement of punctual.client.producer.Producer.open in tests."""

    async def open_(*_: Any) -> SimulatedProducer:
        return SimulatedProducer(delayed)

    return open_
