"""Reads events: the outcomes of requests that were just sent, and how messages had ended before."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import aiokafka.errors

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.serve.actions.writing import PATIENCE_S
from app.serve.messages.outcome import event_of

_CHUNK: Final = 1_000
#: The number of events before a command that are searched for the end of its message.
_BEFORE: Final = 5_000


class EventWatch:
    """Reads events of some partitions, from its creation on."""

    def __init__(self, readers: Mapping[int, PartitionReader]) -> None:
        """Read the events with `readers`, by partition."""
        self._readers = readers

    @classmethod
    async def begin(cls, cluster: Cluster, topic: str, partitions: Iterable[int]) -> Self:
        """Return a watch that starts at the end of these partitions. Raises a KafkaError."""
        numbers = sorted(set(partitions))
        found = await asyncio.gather(*(PartitionReader.at_end(cluster, topic, number) for number in numbers))
        return cls(dict(zip(numbers, found, strict=True)))

    async def outcomes(self, sources: Mapping[str, int], patience_s: float) -> Counter[str]:
        """Return the number of requests with each outcome, by event name, as events() finds them."""
        return Counter(event["event"] for event in (await self.events(sources, patience_s)).values())

    async def events(self, sources: Mapping[str, int], patience_s: float) -> dict[str, dict[str, Any]]:
        """Return the event of each request, by its source.

        `sources` are their `topic-partition-offset`, each with the partition of its ID. Requests without an event
        within `patience_s` are left out.
        """
        found, of = dict[str, dict[str, Any]](), dict[int, set[str]]()
        for source, home in sources.items():
            of.setdefault(home, set()).add(source)
        waits = (self._wait(home, wanted, found) for home, wanted in of.items() if home in self._readers)
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*waits)
        except (TimeoutError, aiokafka.errors.KafkaError):
            pass
        return found

    async def _wait(self, home: int, wanted: set[str], found: dict[str, dict[str, Any]]) -> None:
        while wanted:
            for record in await self._readers[home].chunk(_CHUNK):
                event = event_of(record.value)
                source = "" if event is None else str(event.get("by", event["source"]))
                if event is not None and source in wanted:
                    wanted.discard(source)
                    found[source] = event


async def ending(cluster: Cluster, topic: str, home: int, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the event with which a message ended, if the command of `event` came too late for it; else None.

    It returns None too if the event is not among the last events of the partition.

    Raises TimeoutError if the brokers do not answer.
    """
    if event["event"] not in ("conflict", "unknown"):
        return None
    reader = PartitionReader(cluster, topic, home)
    found = None
    async with asyncio.timeout(PATIENCE_S):
        end = await reader.end()
        start = max(await reader.begin(), end - _BEFORE)
        async for record in PartitionReader(cluster, topic, home, start).up_to(end):
            earlier = event_of(record.value)
            if (
                earlier is not None
                and earlier["id"] == event["id"]
                and earlier["event"] in ("delivered", "cancelled", "dropped", "rejected")
            ):
                found = earlier
    return found
