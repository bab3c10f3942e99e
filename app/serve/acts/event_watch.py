"""Waits for the events that tell what came of requests, in whichever partitions their ids are at home."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Self

import aiokafka.errors

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.serve.acts.outcome import event_of

_CHUNK: Final = 1_000


class EventWatch:
    """Reads some partitions of the events from a moment on."""

    def __init__(self, readers: Mapping[int, PartitionReader]) -> None:
        """Read by these, by partition."""
        self._readers = readers

    @classmethod
    async def begin(cls, cluster: Cluster, topic: str, partitions: Iterable[int]) -> Self:
        """Begin at the end of these partitions. Raises a KafkaError."""
        numbers = sorted(set(partitions))
        found = await asyncio.gather(*(PartitionReader.at_end(cluster, topic, number) for number in numbers))
        return cls(dict(zip(numbers, found, strict=True)))

    async def told(self, sources: Mapping[str, int], patience_s: float) -> Counter[str]:
        """Return how many requests came to what, by the names of events.

        `sources` are their `topic-partition-offset`, each with the partition of its id. Whatever no event tells of
        within `patience_s` is not counted.
        """
        found, of = dict[str, str](), dict[int, set[str]]()
        for source, home in sources.items():
            of.setdefault(home, set()).add(source)
        waits = (self._wait(home, wanted, found) for home, wanted in of.items() if home in self._readers)
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*waits)
        except (TimeoutError, aiokafka.errors.KafkaError):
            pass
        return Counter(found.values())

    async def _wait(self, home: int, wanted: set[str], found: dict[str, str]) -> None:
        while wanted:
            for record in await self._readers[home].chunk(_CHUNK):
                event = event_of(record.value)
                source = "" if event is None else str(event.get("by", event["source"]))
                if event is not None and source in wanted:
                    wanted.discard(source)
                    found[source] = event["event"]
