"""What a consumer group has committed: how far its members have read."""

from collections.abc import Collection

import aiokafka.errors as kafka
from aiokafka.protocol.commit import OffsetFetchRequest

from app.kafka.metadata.cluster import Cluster

_GROUP = 0


async def committed(cluster: Cluster, group: str, topics: Collection[str], partition: int) -> dict[str, int]:
    """Return the group's committed offset of one partition of each topic, without topics that have none.

    Brokers forget the offsets of a topic that is deleted. Raises aiokafka.errors.KafkaError if no coordinator answers.
    """
    coordinator = await cluster.client.coordinator_lookup(_GROUP, group)
    response = await cluster.client.send(
        coordinator, OffsetFetchRequest(group, [(topic, [partition]) for topic in topics]), group="coordinator"
    )
    error = getattr(response, "error_code", 0)
    if error:
        raise kafka.for_code(error)(group)
    found = {}
    for topic, partitions in response.topics:
        for _, offset, _, code in partitions:
            if code:
                raise kafka.for_code(code)(topic)
            if offset >= 0:
                found[topic] = offset
    return found
