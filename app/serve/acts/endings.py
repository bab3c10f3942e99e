"""How messages had ended before an order came for them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.serve.acts.outcome import event_of
from app.serve.acts.writing import PATIENCE_S

#: Events before an order that are looked through for how its message had ended.
_BEFORE: Final = 5_000


async def ending(cluster: Cluster, topic: str, home: int, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how the last life of an event's id had ended, if its order has come too late for that.

    It is None too if that is not among the last events of a partition.

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
            told = event_of(record.value)
            if (
                told is not None
                and told["id"] == event["id"]
                and told["event"] in ("delivered", "cancelled", "dropped", "rejected")
            ):
                found = told
    return found
