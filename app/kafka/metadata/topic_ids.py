"""Topic ids (KIP-516): a topic that is deleted and created again has the same name and another id.

aiokafka's Metadata stops at version 5; ids come with version 10.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import aiokafka.errors as kafka
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from app.kafka.metadata.cluster import Cluster

_UNKNOWN_TOPIC = 3


class _Uuid(AbstractType[bytes]):
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: Any) -> bytes:
        return bytes(data.read(16))


_ANY_ID = bytes(16)


class _TopicIdsResponse(Response):
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("operations", Int32),
        ("tags", TaggedFields),
    )


class _TopicIdsRequest(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _TopicIdsResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("topic", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("cluster_operations", Boolean),
        ("topic_operations", Boolean),
        ("tags", TaggedFields),
    )


class AskTopics(Request[_TopicIdsRequest]):
    """Requests the ids and partitions of topics from any broker. Never creates a topic."""

    API_KEY = 3

    def __init__(self, topics: Collection[str]) -> None:
        """Request these topics."""
        self.topics = list(topics)

    def build(self, request_struct_class: type[_TopicIdsRequest]) -> _TopicIdsRequest:
        """Return the request in its wire format."""
        return request_struct_class([(_ANY_ID, topic, {}) for topic in self.topics], False, False, False, {})  # noqa: FBT003 - the protocol's order


class TopicId(NamedTuple):
    """A topic's id, and its number of partitions."""

    id: str
    partitions: int


async def topic_ids(cluster: Cluster, topics: Collection[str]) -> dict[str, TopicId]:
    """Return the id and the number of partitions of each topic that exists.

    An id is "" on brokers before Kafka 2.8, which have none. Raises aiokafka.errors.KafkaError if no broker answers.
    """
    try:
        response = await cluster.ask(AskTopics(topics))
    except kafka.IncompatibleBrokerVersion:
        missing = await cluster.refresh(topics)
        return {topic: TopicId("", cluster.partitions(topic)) for topic in topics if topic not in missing}
    ids = {}
    for error, topic, topic_id, _, partitions, *_ in response.topics:
        if error not in (0, _UNKNOWN_TOPIC):
            raise kafka.for_code(error)(topic)
        if not error:
            ids[topic] = TopicId(topic_id.hex(), len(partitions))
    return ids
