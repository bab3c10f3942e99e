"""aiokafka's client, protected against brokers that accept connections but do not answer.

A broker whose process is stopped, or whose machine is down, closes no connection. aiokafka waits for each answer until
the request times out (15 s here, 90 s in the group's consumer) and asks no other broker in the meantime. The cluster
notices earlier: once the broker's session has ended, it is no longer listed and other brokers lead its partitions. So:
- a question that any broker can answer goes to the next one when the first is silent;
- while an answer is late, the list of brokers is requested every second;
- connections to brokers that are no longer listed are closed: their requests fail, and find the new leader.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import aiokafka.admin.client
import aiokafka.consumer.consumer
import aiokafka.errors as kafka
import aiokafka.producer.producer
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.conn import CloseReason
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.metadata import MetadataRequest

from app.kafka.wire.connection import QuickConnection

#: Seconds of silence after which the next broker is asked as well: answers take milliseconds.
PATIENCE_S = 0.5
#: An answer that takes longer is late. Brokers end another broker's session after 9 s (broker.session.timeout.ms).
LATE_S, _LOOK_S = 2.0, 1.0
_BOOTSTRAP = "bootstrap"

log = logging.getLogger(__name__)

Send = Callable[[], Coroutine[Any, Any, Any]]


async def first_answer(sends: Iterable[Send], patience_s: float = PATIENCE_S) -> Any:
    """Return the first answer of several requests; each begins when the previous ones fail or are silent.

    Raises the error of the last one, a KafkaError or TimeoutError, if all fail.
    """
    pending, waiting = list(reversed(list(sends))), set[asyncio.Task[Any]]()
    error: BaseException = kafka.KafkaConnectionError("the client knows no broker")
    try:
        while pending or waiting:
            if pending:
                waiting.add(asyncio.get_running_loop().create_task(pending.pop()()))
            limit_s = patience_s if pending else None
            done, waiting = await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                failure = task.exception()
                if failure is None:
                    return task.result()
                if not isinstance(failure, (kafka.KafkaError, TimeoutError)):
                    raise failure
                error = failure
        raise error
    except asyncio.CancelledError:
        for task in waiting:
            task.cancel()
        raise
    finally:
        for task in waiting:  # a silent broker's connection continues to wait for its answer
            task.add_done_callback(heard)


def heard(task: "asyncio.Future[Any]") -> None:
    """Retrieve the error of an answer that is not needed any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


class LiveClient(AIOKafkaClient):
    """A client that gives up on brokers that the cluster no longer lists, and opens connections in parallel.

    aiokafka opens one connection at a time (client.py, _get_conn): a silent broker would delay all others.
    """

    _get_conn_lock = nullcontext()

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create a client with aiokafka's arguments."""
        super().__init__(*args, **options)
        #: Connections that are being opened, by broker and kind, and when that began.
        self._opening: dict[tuple[Any, Any], tuple[asyncio.Task[Any], float]] = {}
        #: Futures that are set when the cluster no longer lists a broker.
        self._unlisted: dict[Any, asyncio.Future[None]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def bootstrap(self) -> None:
        """Connect as aiokafka does, and begin to watch for late answers."""
        await super().bootstrap()
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Close all connections."""
        tasks = [task for task, _ in self._opening.values()]
        if self._watching is not None:
            tasks.append(self._watching)
            self._watching = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()

    # connections -----------------------------------------------------------------------------------------------------
    async def _get_conn(self, node_id: Any, *, group: Any = ConnectionGroup.DEFAULT, **how: Any) -> Any:
        known = self._conns.get((node_id, group))
        if known is not None and known.connected():
            return known
        loop = asyncio.get_running_loop()
        if (node_id, group) not in self._opening:
            task = loop.create_task(super()._get_conn(node_id, group=group, **how))
            self._opening[node_id, group] = task, loop.time()
            task.add_done_callback(lambda _: self._opening.pop((node_id, group), None))
        task, _ = self._opening[node_id, group]
        unlisted = self._unlisted.setdefault(node_id, loop.create_future())
        await asyncio.wait({task, unlisted}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() and not task.cancelled() else None

    # metadata --------------------------------------------------------------------------------------------------------
    async def _metadata_update(self, cluster_metadata: Any, topics: Any) -> bool:
        """Request metadata as aiokafka does, from the first broker that answers (client.py, _metadata_update)."""
        request = MetadataRequest(list(topics) if topics else None)
        try:
            metadata = await self._ask_any(request)
        except (kafka.KafkaError, TimeoutError) as error:
            log.warning("no metadata: %r", error)
            cluster_metadata.failed_update(None)
            return False
        if not metadata.brokers:
            return False
        cluster_metadata.update_metadata(metadata)
        if (_BOOTSTRAP, ConnectionGroup.DEFAULT) in self._conns and self.cluster.brokers():
            self._conns.pop((_BOOTSTRAP, ConnectionGroup.DEFAULT)).close()
        self._drop_unlisted()
        return True

    async def coordinator_lookup(self, coordinator_type: Any, coordinator_key: str) -> Any:
        """Return the coordinator of a group as aiokafka does, from the first broker that answers."""
        response = await self._ask_any(FindCoordinatorRequest(coordinator_key, CoordinationType(coordinator_type)))
        error = kafka.for_code(response.error_code)
        if error is not kafka.NoError:
            raise error
        return response.coordinator_id

    async def _ask_any(self, request: Any) -> Any:
        nodes: list[Any] = [broker.nodeId for broker in self.cluster.brokers()]
        random.shuffle(nodes)
        if (_BOOTSTRAP, ConnectionGroup.DEFAULT) in self._conns:
            nodes.append(_BOOTSTRAP)
        return await first_answer([partial(self._ask_one, node, request) for node in nodes])

    async def _ask_one(self, node: Any, request: Any) -> Any:
        connection = await self._get_conn(node)
        if connection is None:
            raise kafka.NodeNotReadyError(f"broker {node}")
        return await connection.send(request)

    def _drop_unlisted(self) -> None:
        """Close the connections to brokers that the cluster no longer lists, and stop opening new ones to them."""
        listed = {broker.nodeId for broker in self.cluster.brokers()} | {_BOOTSTRAP}
        for (node, _), connection in list(self._conns.items()):
            if node not in listed:
                connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        for node in self._unlisted.keys() - listed:
            unlisted = self._unlisted.pop(node)
            if not unlisted.done():
                unlisted.set_result(None)

    # late answers ----------------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        """Request the list of brokers while an answer is late."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._is_late():
                with contextlib.suppress(kafka.KafkaError):
                    await self.force_metadata_update()

    def _is_late(self) -> bool:
        """Return whether an answer, or the opening of a connection, is late."""
        before_s = asyncio.get_running_loop().time() - LATE_S
        if any(since_s < before_s for _, since_s in self._opening.values()):
            return True
        known = (one for one in list(self._conns.values()) if isinstance(one, QuickConnection))
        return any(one.waits_since_s < before_s for one in known)


def install() -> None:
    """Make aiokafka's consumers, producers and admin clients use this client."""
    for module in (aiokafka.consumer.consumer, aiokafka.producer.producer, aiokafka.admin.client):
        module.AIOKafkaClient = LiveClient
