"""The coordinators of transactional ids, and the ids' last transactions: many ids in one request.

aiokafka's FindCoordinator stops at version 1, which requests one id (KIP-699 brought the others in version 4).
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import aiokafka.errors as kafka
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int8, Int16, Int32, Schema, TaggedFields

from app.kafka.metadata.describe_transactions import Describe, TransactionDescription
from app.kafka.metadata.request_coalescer import RequestCoalescer

_TRANSACTION = 1


class _CoordinatorsResponse(Response):
    API_KEY = 10
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "coordinators",
            CompactArray(
                ("transactional_id", CompactString("utf-8")),
                ("node", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _CoordinatorsRequest(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 10
    API_VERSION = 4
    RESPONSE_TYPE = _CoordinatorsResponse
    SCHEMA = Schema(
        ("key_type", Int8), ("transactional_ids", CompactArray(CompactString("utf-8"))), ("tags", TaggedFields)
    )


class FindCoordinators(Request[_CoordinatorsRequest]):
    """Requests the coordinators of transactional ids from any broker."""

    API_KEY = 10

    def __init__(self, transactional_ids: Collection[str]) -> None:
        """Request the coordinators of `transactional_ids`."""
        self.transactional_ids = list(transactional_ids)

    def build(self, request_struct_class: type[_CoordinatorsRequest]) -> _CoordinatorsRequest:
        """Return the request in its wire format."""
        return request_struct_class(_TRANSACTION, self.transactional_ids, {})


class Coordinators:
    """Looks up many transactional ids in few requests."""

    def __init__(self, ask: Callable[[Any], Any], send: Callable[[int, Any], Any]) -> None:
        """Send requests with `ask` to any broker, with `send` to a certain one."""
        self._ask, self._send = ask, send
        self._finding = RequestCoalescer(self._find)
        self._describing: dict[int, RequestCoalescer[str, TransactionDescription]] = {}

    async def find(self, transactional_id: str) -> int:
        """Return the broker that coordinates an id.

        Raises aiokafka.errors.KafkaError if there is none at the moment.
        """
        code, node = await self._finding(transactional_id)
        error = kafka.for_code(code)
        if error is not kafka.NoError:
            raise error(transactional_id)
        return node

    async def _find(self, ids: Collection[str]) -> dict[str, tuple[int, int]]:
        response = await self._ask(FindCoordinators(ids))
        return {id_: (code, node) for id_, node, _, _, code, *_ in response.coordinators}

    async def describe(self, node: int, transactional_id: str) -> TransactionDescription:
        """Return a coordinator's description of an id's last transaction.

        Raises aiokafka.errors.KafkaError if it does not answer.
        """
        if node not in self._describing:
            self._describing[node] = RequestCoalescer(partial(self._describe, node))
        return await self._describing[node](transactional_id)

    async def _describe(self, node: int, ids: Collection[str]) -> dict[str, TransactionDescription]:
        response = await self._send(node, Describe(ids))
        return {one.transactional_id: one for one in (TransactionDescription(*state) for state in response.states)}
