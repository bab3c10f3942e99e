"""Asks brokers who leads the partitions of a topic, for those that have to know."""

import logging
from collections.abc import Collection

import aiokafka.errors as kafka

from app.kafka.metadata.cluster import Cluster

log = logging.getLogger(__name__)


class LeaderSearch:
    """Refreshes what a cluster knows of topics; one that does not answer is worth a warning, no more."""

    def __init__(self, cluster: Cluster, where: str) -> None:
        """Ask `cluster`, which the log calls `where`."""
        self._cluster, self._where = cluster, where
        self._learning: set[str] = set()

    async def look(self, topics: Collection[str]) -> set[str]:
        """Ask for topics; return those that are not there, as far as brokers say."""
        try:
            return await self._cluster.refresh(topics)
        except kafka.KafkaError as error:
            log.warning("no metadata%s: %r", self._where, error)
            return set()

    async def learn(self, topics: set[str]) -> None:
        """Ask for those topics that are not being asked for already."""
        topics = topics - self._learning
        if not topics:
            return
        self._learning |= topics
        try:
            await self.look(topics)
        finally:
            self._learning -= topics
