"""Finds transactions that are still open because a coordinator has left out their markers."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import aiokafka.errors as kafka
from aiokafka.protocol.metadata import MetadataRequest

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.describe_transactions import DescribeProducers
from app.kafka.metadata.offsets import TopicPartition

log = logging.getLogger(__name__)

_NONE_OPEN = -1


class OpenTransactions(NamedTuple):
    """Partitions with open transactions by producer id, and `unseen` partitions, which have no leader.

    `epochs` are those with which each producer wrote to a partition last, whether a transaction is open there or not.
    """

    by_producer: dict[int, set[TopicPartition]]
    unseen: frozenset[TopicPartition]
    epochs: dict[tuple[int, TopicPartition], int]

    def belongs(self, producer: int, epoch: int) -> bool:
        """Return whether a producer has a transaction open that was written with this epoch or an earlier one."""
        return any(self.epochs[producer, tp] <= epoch for tp in self.by_producer.get(producer, ()))


class HangingTransactions:
    """Checks all partitions of `wanted` topics that a client may see, once for all callers at about the same time."""

    def __init__(self, cluster: Cluster, wanted: Callable[[str], bool]) -> None:
        """Check the topics of `cluster` for which `wanted` returns True."""
        self._cluster, self._wanted = cluster, wanted
        self._present: asyncio.Task[OpenTransactions] | None = None
        self._next: asyncio.Task[OpenTransactions] | None = None

    async def look(self) -> OpenTransactions:
        """Return the result of a check that begins after this call.

        Raises aiokafka.errors.KafkaError if no broker answers.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._after(self._present))
        return await asyncio.shield(self._next)

    async def _after(self, present: "asyncio.Task[OpenTransactions] | None") -> OpenTransactions:
        if present is not None:
            await asyncio.wait([present])
        self._present, self._next = self._next, None
        response = await self._cluster.ask(MetadataRequest(None, allow_auto_topic_creation=False))
        leaders = {
            (topic, number): leader
            for error, topic, _, partitions in response.topics
            if not error and self._wanted(topic)
            for _, number, leader, *_ in partitions
        }
        return await _look(self._cluster, leaders)


async def open_in(cluster: Cluster, tps: Iterable[TopicPartition]) -> OpenTransactions:
    """Return the open transactions in some partitions.

    Raises aiokafka.errors.KafkaError if no broker answers.
    """
    chosen = set(tps)
    seen = await _look(cluster, _leaders(cluster, chosen))
    if not seen.unseen:
        return seen
    gone = await cluster.refresh({topic for topic, _ in chosen})
    return await _look(cluster, _leaders(cluster, {tp for tp in chosen if tp[0] not in gone}))


def _leaders(cluster: Cluster, tps: set[TopicPartition]) -> dict[TopicPartition, int]:
    known = {tp: cluster.leader(*tp) for tp in tps}
    return {tp: -1 if leader is None else leader for tp, leader in known.items()}


async def _look(cluster: Cluster, leaders: dict[TopicPartition, int]) -> OpenTransactions:
    """Return the leaders' open transactions; partitions that this client may not read count as having none."""
    requests: dict[int, dict[str, list[int]]] = {}
    for (topic, number), leader in sorted(leaders.items()):
        if leader >= 0:
            requests.setdefault(leader, {}).setdefault(topic, []).append(number)
    unseen, transactions, epochs = (
        set(leaders),
        dict[int, set[TopicPartition]](),
        dict[tuple[int, TopicPartition], int](),
    )
    for leader, topics in requests.items():
        try:
            response = await cluster.client.send(leader, DescribeProducers(topics), group="read")
        except kafka.KafkaError as error:
            log.warning("broker %d does not return its open transactions: %r", leader, error)
            continue
        for topic, partitions, _ in response.topics:
            for number, code, _, producers, _ in partitions:
                if not getattr(kafka.for_code(code), "retriable", False):
                    unseen.discard((topic, number))
                for producer, epoch, *_, first, _ in producers:
                    epochs[producer, (topic, number)] = epoch
                    if first != _NONE_OPEN:
                        transactions.setdefault(producer, set()).add((topic, number))
    return OpenTransactions(transactions, frozenset(unseen), epochs)
