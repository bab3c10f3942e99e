"""Removes a static member from its group (KIP-345): aiokafka's LeaveGroup stops at version 1, which cannot."""

import asyncio
import logging

import aiokafka.errors
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Schema, String

from app.kafka.metadata.cluster import Cluster

log = logging.getLogger(__name__)

_GROUP = 0
#: A coordinator that takes longer, because its broker is down, learns of it by the session timeout.
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
    """Remove the static member `instance` from `group`, so that its partitions move on at once.

    Never fails: without it the group notices after the session timeout.
    """
    try:
        async with asyncio.timeout(_LIMIT_S):
            coordinator = await cluster.client.coordinator_lookup(_GROUP, group)
            response = await cluster.client.send(coordinator, _LeaveGroup(group, instance))
        log.info("left the group: %s", aiokafka.errors.for_code(response.error_code).__name__)
    except (aiokafka.errors.KafkaError, TimeoutError, OSError) as error:
        log.warning("the group coordinator did not confirm that this member leaves: %r", error)
