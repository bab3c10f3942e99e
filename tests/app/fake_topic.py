"""A topic of one partition without a broker, and its reader."""

import asyncio
from typing import Any

import aiokafka.errors

from app.kafka.metadata.reader import PartitionReader, Stored


class Log:
    """The topic, as far as readers see it."""

    def __init__(self, stamp_ms: int = 0) -> None:
        self.stamp_ms = stamp_ms
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.begin = 0
        self.away = asyncio.Event()
        self.away.set()

    def reader(self, _cluster: Any, _topic: str, _partition: int, offset: int = 0) -> "Reader":
        return Reader(self, offset)


class Reader:
    """Stands where app.kafka.metadata.reader.PartitionReader stands."""

    up_to = PartitionReader.up_to

    def __init__(self, log: Log, offset: int) -> None:
        self._log, self.offset = log, offset

    async def begin(self) -> int:
        await self._log.away.wait()
        return self._log.begin

    async def end(self) -> int:
        await self._log.away.wait()
        return len(self._log.records)

    async def position(self) -> int:
        return self.offset

    async def chunk(self, limit: int) -> list[Stored]:
        if self.offset < self._log.begin:
            raise aiokafka.errors.OffsetOutOfRangeError
        found = self._log.records[self.offset : self.offset + limit]
        first, self.offset = self.offset, self.offset + len(found)
        return [Stored(first + place, self._log.stamp_ms, key, value) for place, (key, value) in enumerate(found)]
