"""A Kafka cluster: connections and metadata. Requesting a topic's metadata never creates it."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import aiokafka.errors as kafka
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.protocol.metadata import MetadataRequest

from app.kafka.metadata.coordinators import Coordinators
from app.kafka.metadata.offsets import Offsets, TopicPartition
from app.kafka.metadata.request_coalescer import RequestCoalescer
from app.kafka.wire.connection import QuickConnection
from app.kafka.wire.live_client import LiveClient, first_answer

log = logging.getLogger(__name__)

#: Id of a cluster whose brokers return none.
NO_ID = "unknown"
_AGAIN_S = 0.1


class _Client(LiveClient):
    """Reports connections that end while in use."""

    def __init__(self, lose: Callable[[int], None], **options: Any) -> None:
        """Create a client that calls `lose` with the broker of a lost connection; `options` are aiokafka's."""
        super().__init__(**options)
        self._lose = lose

    def _on_connection_closed(self, conn: Any, reason: Any) -> None:
        if reason is not CloseReason.IDLE_DROP:
            for node in {node for (node, _), known in self._conns.items() if known is conn}:
                self._lose(node)
        super()._on_connection_closed(conn, reason)

    def begin(self, node_id: int, request: Any, *, group: Any) -> "asyncio.Future[Any]":
        """Send a request; the future returns the answer, or raises aiokafka.errors.KafkaError."""
        connection, loop = self._conns.get((node_id, group)), asyncio.get_running_loop()
        if not isinstance(connection, QuickConnection) or not connection.connected():
            return loop.create_task(super().send(node_id, request, group=group))
        try:
            answer: asyncio.Future[Any] = asyncio.ensure_future(connection.send(request))  # a session may be renewed
        except kafka.KafkaError as error:
            answer = loop.create_future()
            answer.set_exception(error)
        return answer

    async def send(self, node_id: int, request: Any, *, group: Any = ConnectionGroup.DEFAULT) -> Any:
        """Send a request as aiokafka does, with fewer checks of an open connection."""
        return await self.begin(node_id, request, group=group)


class Cluster:
    """Connections to one cluster's brokers, and the leaders of partitions.

    aiokafka's own metadata requests can create topics (MetadataRequest defaults to allow_auto_topic_creation); these do
    not.
    """

    def __init__(self, bootstrap: str, *, request_timeout_ms: int = 15_000, **options: Any) -> None:
        """Prepare for the cluster at `bootstrap`; `options` are aiokafka's security options."""
        self._arguments = {"bootstrap_servers": bootstrap, "request_timeout_ms": request_timeout_ms, **options}
        self._client: _Client | None = None
        self._leaders: dict[str, list[int]] = {}
        #: The number of in-sync replicas of partitions that lack some.
        self._short: dict[str, dict[int, int]] = {}
        self._losses = Counter[TopicPartition]()
        #: The number of lost connections, now and before the last request for leaders; and the brokers that have not
        #: answered since their connection was lost.
        self._lost = self._looked = 0
        self._asking, self._away = asyncio.Lock(), set[int]()
        self._is_there = RequestCoalescer(self._ask_for)
        self.offsets = Offsets(lambda node, request: self.client.send(node, request, group="read"))
        self.coordinators = Coordinators(self.ask, self.ask_coordinator)

    async def start(self, anchor: str) -> None:
        """Connect. `anchor` is an existing topic, whose metadata the client refreshes (none would mean all topics)."""
        self._client = _Client(self.lose, metadata_max_age_ms=60_000, **self._arguments)
        self._client._topics = {anchor}  # noqa: SLF001 - set_topics() waits for a connection that isn't there yet
        await self._client.bootstrap()

    async def stop(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()

    @property
    def client(self) -> _Client:
        """The started client."""
        assert self._client is not None, "start() comes first"
        return self._client

    def lose(self, node: int) -> None:
        """Note that a connection to a broker was lost while in use."""
        self._lost += 1  # it may have led partitions that are not known here
        self._away.add(node)
        for topic, leaders in self._leaders.items():
            self._losses.update((topic, number) for number, leader in enumerate(leaders) if leader == node)

    def losses(self, tp: TopicPartition) -> int:
        """Return how often a partition's leader seems to have been lost, possibly with requests in flight."""
        return self._losses[tp]

    async def look_for_losses(self) -> None:
        """Find the partitions whose leader has changed, if a broker was lost since the last call."""
        if self._lost == self._looked:
            return
        async with self._asking:
            while self._lost != self._looked:
                lost = self._lost
                try:
                    await self.refresh(self.known())
                except kafka.KafkaError:
                    await asyncio.sleep(_AGAIN_S)
                else:
                    self._looked = lost

    async def id(self) -> str:
        """Return the cluster's own permanent id, or `unknown` if brokers return none.

        Raises aiokafka.errors.KafkaError if no broker answers.
        """
        response = await self.ask(MetadataRequest([], allow_auto_topic_creation=False))
        return getattr(response, "cluster_id", None) or NO_ID

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker that leads a partition, or None if it is not known."""
        leaders = self._leaders.get(topic, ())
        if partition < len(leaders) and leaders[partition] >= 0:
            return leaders[partition]
        return None

    def partitions(self, topic: str) -> int:
        """Return a topic's last known number of partitions, 0 if it is not known."""
        return len(self._leaders.get(topic, ()))

    def as_short_as(self, topic: str, partition: int) -> list[int]:
        """Return the topic's partitions with no more in-sync replicas than this one, if it lacks some.

        Batches that this partition refuses for that reason are refused by the others too.
        """
        short = self._short.get(topic, {})
        return [number for number, left in short.items() if left <= short[partition]] if partition in short else []

    def known(self) -> list[str]:
        """Return the topics whose leaders are known."""
        return list(self._leaders)

    async def refresh(self, topics: Collection[str]) -> set[str]:
        """Request the metadata of `topics`; return the missing topics.

        Raises aiokafka.errors.KafkaError if no broker answers.
        """
        there = await asyncio.gather(*(self._is_there(topic) for topic in topics))
        return {topic for topic, is_there in zip(topics, there, strict=True) if not is_there}

    async def _ask_for(self, topics: Collection[str]) -> dict[str, bool]:
        """Update the leaders of topics; return for each whether it exists."""
        response = await self.ask(MetadataRequest(list(topics), allow_auto_topic_creation=False))
        there = dict.fromkeys(topics, True)
        for error, topic, _, partitions in response.topics:
            if error in (kafka.UnknownTopicOrPartitionError.errno, kafka.InvalidTopicError.errno):
                there[topic] = False
                self._leaders.pop(topic, None)
                self._short.pop(topic, None)
            elif not error:
                leaders = {number: leader for _, number, leader, *_ in partitions}
                self._look_for_losses(topic, leaders)
                self._leaders[topic] = [leaders.get(i, -1) for i in range(max(leaders, default=-1) + 1)]
                self._short[topic] = {
                    number: len(in_sync)
                    for _, number, _, replicas, in_sync, *_ in partitions
                    if len(in_sync) < len(replicas)
                }
        return there

    def _look_for_losses(self, topic: str, leaders: dict[int, int]) -> None:
        """Count partitions that lost their known leader, which may have died without closing connections.

        A new leader may have been down, too, before it was known here.
        """
        before = self._leaders.get(topic, ())
        self._losses.update((topic, number) for number, was in enumerate(before) if leaders.get(number, -1) != was >= 0)

    async def ask_coordinator(self, node: int, request: Any) -> Any:
        """Send a request to a coordinator on a connection that no batches delay.

        Raises aiokafka.errors.KafkaError if it does not answer.
        """
        return await self.client.send(node, request, group="coordinator")

    async def ask(self, request: Any) -> Any:
        """Send a request to any broker that answers, and return the answer.

        Raises aiokafka.errors.KafkaError if no broker answers.
        """
        if not self.client.cluster.brokers():  # none answered at the start
            await self.client.bootstrap()
        nodes = [broker.nodeId for broker in self.client.cluster.brokers()]
        random.shuffle(nodes)
        nodes.sort(key=self._away.__contains__)  # a broker that does not answer costs time
        try:
            return await first_answer([partial(self._ask_one, node, request) for node in nodes])
        except kafka.KafkaError as error:
            msg = "no broker answers. Check KAFKA_BOOTSTRAP_SERVERS"
            raise kafka.KafkaConnectionError(msg) from error

    async def _ask_one(self, node: int, request: Any) -> Any:
        try:
            response = await self.client.send(node, request)
        except kafka.KafkaError as error:
            log.warning("broker %s does not answer: %r", node, error)
            raise
        self._away.discard(node)
        return response


class LeaderSearch:
    """Refreshes a cluster's metadata of topics, such as the leaders of partitions.

    If the cluster does not answer, it only logs a warning.
    """

    def __init__(self, cluster: Cluster, where: str) -> None:
        """Refresh the metadata of `cluster`, which the log calls `where`."""
        self._cluster, self._where = cluster, where
        self._learning: set[str] = set()

    async def look(self, topics: Collection[str]) -> set[str]:
        """Refresh topics; return the missing ones, as far as brokers answer."""
        try:
            return await self._cluster.refresh(topics)
        except kafka.KafkaError as error:
            log.warning("no metadata%s: %r", self._where, error)
            return set()

    async def learn(self, topics: set[str]) -> None:
        """Refresh those topics that are not being refreshed already."""
        topics = topics - self._learning
        if not topics:
            return
        self._learning |= topics
        try:
            await self.look(topics)
        finally:
            self._learning -= topics
