"""Removes a static member from a consumer group (KIP-345), and reads the group's committed offsets.

aiokafka's LeaveGroup stops at version 1, which cannot remove static members.
"""

import asyncio
import logging
from collections.abc import Collection

import aiokafka.errors
import aiokafka.errors as kafka
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.types import Array, Int16, Int32, Schema, String

from app.kafka.metadata.cluster import Cluster

log = logging.getLogger(__name__)

_GROUP = 0
#: Maximum seconds to wait: if the coordinator's broker is down, the session timeout ends the membership.
_LIMIT_S = 5.0


class _LeaveGroupResponse(Response):
    API_KEY = 13
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "members",
            Array(("member_id", String("utf-8")), ("group_instance_id", String("utf-8")), ("error_code", Int16)),
        ),
    )


class _LeaveGroupStruct(RequestStruct):
    API_KEY = 13
    API_VERSION = 3
    RESPONSE_TYPE = _LeaveGroupResponse
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("members", Array(("member_id", String("utf-8")), ("group_instance_id", String("utf-8")))),
    )


class _LeaveGroup(Request[_LeaveGroupStruct]):
    API_KEY = 13

    def __init__(self, group: str, instance: str) -> None:
        self._group, self._instance = group, instance

    def build(self, request_struct_class: type[_LeaveGroupStruct]) -> _LeaveGroupStruct:
        return request_struct_class(self._group, [("", self._instance)])


async def leave_group(cluster: Cluster, group: str, instance: str) -> None:
    """Remove the static member `instance` from `group`, so that its partitions are reassigned at once.

    Never fails: otherwise the group notices after the session timeout.
    """
    try:
        async with asyncio.timeout(_LIMIT_S):
            coordinator = await cluster.client.coordinator_lookup(_GROUP, group)
            response = await cluster.client.send(coordinator, _LeaveGroup(group, instance))
        log.info("left the group: %s", aiokafka.errors.for_code(response.error_code).__name__)
    except (aiokafka.errors.KafkaError, TimeoutError, OSError) as error:
        log.warning("the group coordinator did not confirm that this member leaves: %r", error)


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
    offsets = {}
    for topic, partitions in response.topics:
        for _, offset, _, code in partitions:
            if code:
                raise kafka.for_code(code)(topic)
            if offset >= 0:
                offsets[topic] = offset
    return offsets
