"""Requests for the state of transactions and producers (KIP-664), which aiokafka does not have."""

from collections.abc import Collection
from typing import Any, NamedTuple

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from app.kafka.metadata.offsets import TopicPartition

_UNKNOWN_ID = 105

#: Numbers of partitions, by topic.
_PARTITIONS = CompactArray(
    ("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
)


class _DescribeResponse(Response):
    API_KEY = 65
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "states",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", CompactString("utf-8")),
                ("state", CompactString("utf-8")),
                ("timeout_ms", Int32),
                ("start_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                ("topics", _PARTITIONS),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeRequest(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 65
    API_VERSION = 0
    RESPONSE_TYPE = _DescribeResponse
    SCHEMA = Schema(("transactional_ids", CompactArray(CompactString("utf-8"))), ("tags", TaggedFields))


class TransactionDescription(NamedTuple):
    """The state of an id's last transaction at its coordinator; producer and epoch are 0 if it does not know the id."""

    error_code: int
    transactional_id: str
    state: str
    timeout_ms: int
    start_ms: int
    producer_id: int
    producer_epoch: int
    topics: Any
    tags: Any

    @property
    def producer(self) -> tuple[int, int]:
        """The producer id and epoch."""
        return self.producer_id, self.producer_epoch

    @property
    def unended(self) -> frozenset[TopicPartition]:
        """The transaction's partitions that have not stored its end marker."""
        return frozenset((topic, number) for topic, numbers, _ in self.topics for number in numbers)

    @property
    def is_unknown(self) -> bool:
        """Whether the coordinator does not know the id."""
        return self.error_code == _UNKNOWN_ID


class Describe(Request[_DescribeRequest]):
    """Requests the last transactions of ids, with the topics that have not stored the end marker."""

    API_KEY = 65

    def __init__(self, transactional_ids: Collection[str]) -> None:
        """Request the last transactions of `transactional_ids`."""
        self.transactional_ids = list(transactional_ids)

    def build(self, request_struct_class: type[_DescribeRequest]) -> _DescribeRequest:
        """Return the request in its wire format."""
        return request_struct_class(self.transactional_ids, {})


class _ProducersResponse(Response):
    API_KEY = 61
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", CompactString("utf-8")),
                        (
                            "producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("producer_epoch", Int32),
                                ("last_sequence", Int32),
                                ("last_ms", Int64),
                                ("coordinator_epoch", Int32),
                                ("first_open_offset", Int64),
                                ("tags", TaggedFields),
                            ),
                        ),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ProducersStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 61
    API_VERSION = 0
    RESPONSE_TYPE = _ProducersResponse
    SCHEMA = Schema(("topics", _PARTITIONS), ("tags", TaggedFields))


class DescribeProducers(Request[_ProducersStruct]):
    """Requests the recent producers of partitions and their open transactions from the partitions' leader."""

    API_KEY = 61

    def __init__(self, topics: dict[str, list[int]]) -> None:
        """Request the producers of `topics`, partition numbers by topic."""
        self.topics = topics

    def build(self, request_struct_class: type[_ProducersStruct]) -> _ProducersStruct:
        """Return the request in its wire format."""
        return request_struct_class([(topic, numbers, {}) for topic, numbers in self.topics.items()], {})
