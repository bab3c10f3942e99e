"""Reads events: the outcomes of requests that were just sent, and how messages had ended before."""

import asyncio
import contextlib
from collections import Counter, defaultdict
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
        readers = await asyncio.gather(*(PartitionReader.at_end(cluster, topic, number) for number in numbers))
        return cls(dict(zip(numbers, readers, strict=True)))

    async def outcomes(self, sources: Mapping[str, int], patience_s: float) -> Counter[str]:
        """Return the number of requests with each outcome, by event name, as events() finds them."""
        return Counter(event["event"] for event in (await self.events(sources, patience_s)).values())

    async def events(self, sources: Mapping[str, int], patience_s: float) -> dict[str, dict[str, Any]]:
        """Return the event of each request, by its source.

        `sources` are their `topic-partition-offset`, each with the partition of its ID. Requests without an event
        within `patience_s` are left out.
        """
        events, sources_of = dict[str, dict[str, Any]](), defaultdict[int, set[str]](set)
        for source, home in sources.items():
            sources_of[home].add(source)
        waits = (self._wait(home, wanted, events) for home, wanted in sources_of.items() if home in self._readers)
        with contextlib.suppress(TimeoutError, aiokafka.errors.KafkaError):
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*waits)
        return events

    async def _wait(self, home: int, wanted: set[str], events: dict[str, dict[str, Any]]) -> None:
        # Searching for these costs a tenth of decoding an event.
        partitions = {source.rpartition("-")[0].encode() for source in wanted}
        while wanted:
            for record in await self._readers[home].chunk(_CHUNK):
                raw = record.value or b""
                event = event_of(raw) if any(partition in raw for partition in partitions) else None
                source = "" if event is None else str(event.get("by", event["source"]))
                if event is not None and source in wanted:
                    wanted.discard(source)
                    events[source] = event


async def ending(cluster: Cluster, topic: str, home: int, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the event with which a message ended, if the command of `event` came too late for it; else None.

    It returns None too if the event is not among the last events of the partition.

    Raises TimeoutError if the brokers do not answer.
    """
    if event["event"] not in ("conflict", "unknown"):
        return None
    reader = PartitionReader(cluster, topic, home)
    ending_event = None
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
                ending_event = earlier
    return ending_event
