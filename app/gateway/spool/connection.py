"""The gateway's connection to brokers, which may be down at its start, for long, and may be replaced."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from aiokafka.errors import KafkaError

from app.base.process.datadir import stored_value
from app.gateway.spool.errors import SpoolForeign
from app.kafka.metadata.cluster import Cluster
from app.kafka.produce.sender import Sender
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings

log = logging.getLogger(__name__)

#: A broker stops waiting for its replicas after the first time, and counts as down after the second.
_REPLICAS_MS, _ANSWER_MS = 4_000, 6_000
_AGAIN_S = 1.0
_LOOK_S = 15.0


class KafkaConnection:
    """Connects as soon as brokers are up; until then, calls of sender() wait."""

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings, data_path: Path) -> None:
        self.cluster = Cluster(kafka.bootstrap, request_timeout_ms=_ANSWER_MS, **kafka.options())
        self._kafka, self._topics, self._path = kafka, topics, data_path
        self._sender: Sender | None = None
        self._there = asyncio.Event()

    @property
    def up(self) -> bool:
        """Whether a connection has been made."""
        return self._sender is not None

    async def sender(self) -> Sender:
        """Return the sender, once a connection has been made."""
        await self._there.wait()
        assert self._sender is not None, "it is there by then"
        return self._sender

    async def run(self, is_down: Callable[[], bool]) -> None:
        """Connect, and look for other brokers at the same addresses while `is_down` returns True; until cancelled.

        Raises SpoolForeign if the data directory was used with another installation.
        """
        while not await self._connect():  # noqa: ASYNC110 - no event announces that brokers are up
            await asyncio.sleep(_AGAIN_S)
        while True:
            await asyncio.sleep(_LOOK_S)
            if is_down():
                try:
                    await self.cluster.client.bootstrap()
                except KafkaError as error:
                    log.warning("Kafka at %s does not answer: %r", self._kafka.bootstrap, error)

    async def _connect(self) -> bool:
        try:
            await self.cluster.start(self._topics.requests)
            if await self.cluster.refresh([self._topics.requests]):
                log.warning(
                    "the topic %s does not exist yet. Start a worker, which creates it",
                    self._topics.requests,
                    extra={"topic": self._topics.requests},
                )
                await self.cluster.stop()  # repeated requests for the topic could create it, with other settings
                return False
            ours = f"{self._topics.app_id} on cluster {await self.cluster.id()}"
            theirs = stored_value(self._path, "installation", ours)
            if theirs != ours:
                raise SpoolForeign(self._path, theirs, ours)
            sender = Sender(self.cluster, recalls=True, timeout_ms=_REPLICAS_MS)
            await sender.start()
        except (KafkaError, OSError) as error:
            log.warning("Kafka at %s does not answer: %r", self._kafka.bootstrap, error)
            await self.cluster.stop()
            return False
        self._sender = sender
        self._there.set()
        log.info("connected to %s", self._kafka.bootstrap)
        return True

    async def close(self) -> None:
        """Abandon records in flight and disconnect."""
        if self._sender is not None:
            await self._sender.stop()
        await self.cluster.stop()
