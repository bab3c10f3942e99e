"""Requests for topics and a group, with the operations that this client may perform on them (KIP-430)."""

from collections.abc import Collection

from aiokafka.protocol.admin import DescribeGroupsResponse_v3
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

#: Value of the field if the broker does not return the operations.
_NOT_TOLD = -(1 << 31)
#: Codes of operations (org.apache.kafka.common.acl.AclOperation), by their names in Kafka's tools.
_CODES = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}


def operations(bits: int) -> frozenset[str] | None:
    """Return the operations in a bit field; None if the broker has not returned them."""
    if bits == _NOT_TOLD:
        return None
    return frozenset(name for name, code in _CODES.items() if bits >> code & 1)


class _Topics(Response):
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("in_sync", Array(Int32)),
                        ("offline", Array(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("operations", Int32),
    )


class _TopicsStruct(RequestStruct):
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _Topics
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("cluster_operations", Boolean),
        ("topic_operations", Boolean),
    )


class DescribeTopics(Request[_TopicsStruct]):
    """Requests brokers, topics (which it never creates), and the permitted operations on each topic."""

    API_KEY = 3

    def __init__(self, topics: Collection[str]) -> None:
        """Request these topics."""
        self.topics = list(topics)

    def build(self, request_struct_class: type[_TopicsStruct]) -> _TopicsStruct:
        """Return the request in its wire format."""
        return request_struct_class(self.topics, False, False, True)  # noqa: FBT003 - as the schema has them


class _GroupStruct(RequestStruct):
    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = DescribeGroupsResponse_v3  # aiokafka's own has the response of version 2, without the operations
    SCHEMA = Schema(("groups", Array(String("utf-8"))), ("operations", Boolean))


class DescribeGroup(Request[_GroupStruct]):
    """Requests a group from its coordinator, and the permitted operations on it."""

    API_KEY = 15

    def __init__(self, group: str) -> None:
        """Request this group."""
        self.group = group

    def build(self, request_struct_class: type[_GroupStruct]) -> _GroupStruct:
        """Return the request in its wire format."""
        return request_struct_class([self.group], True)  # noqa: FBT003 - as the schema has them
