"""Requests a producer id and epoch with the present ones (KIP-360): aiokafka's InitProducerId stops at version 0.

Version 0 would give a new epoch to any client, even if another one has taken its id over in the meantime.
"""

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactString, Int16, Int32, Int64, Schema, TaggedFields

#: A producer without an id and epoch, whose request fences the previous user of the transactional id.
NOBODY = (-1, -1)


class _NextEpochResponse(Response):
    API_KEY = 22
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class _NextEpochRequest(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 22
    API_VERSION = 3
    RESPONSE_TYPE = _NextEpochResponse
    SCHEMA = Schema(
        ("transactional_id", CompactString("utf-8")),
        ("transaction_timeout_ms", Int32),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class NextEpoch(Request[_NextEpochRequest]):
    """Requests the next epoch of a transactional id as `producer`: its id and epoch, which must be the last ones."""

    API_KEY = 22

    def __init__(self, transactional_id: str, timeout_ms: int, producer: tuple[int, int]) -> None:
        """Request an epoch as `producer`, or as NOBODY."""
        self._transactional_id, self._timeout_ms, self._producer = transactional_id, timeout_ms, producer

    def build(self, request_struct_class: type[_NextEpochRequest]) -> _NextEpochRequest:
        """Return the request in its wire format."""
        return request_struct_class(self._transactional_id, self._timeout_ms, *self._producer, {})
