"""Watches Punctual's own topics: if one is deleted, created again, or given more partitions, the worker ends.

Otherwise the worker would write to a topic without the former records, or never read the new partitions.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

import aiokafka.errors

from app.base.errors import LogChanged
from app.kafka import Cluster
from app.kafka.metadata.consumer_group import committed
from app.kafka.metadata.reader import PartitionReader
from app.kafka.metadata.topic_ids import topic_ids
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from tables import PartitionStore
from tables.followed import whole_from

log = logging.getLogger(__name__)

T = TypeVar("T")

_EVERY_S = 2.0
_AGAIN_S, _PATIENCE_S = 0.1, 5.0
#: Number of checks in a row that must miss a topic: a broker that has just started may not know all topics.
_LOOKS = 2
#: Interval in seconds of the comparison of topics' settings with the required ones.
_SETTINGS_S = 60.0


class InternalLogs:
    """Checks one installation's own topics: those with messages, commands or pauses."""

    def __init__(self, topics: TopicSettings, engine: EngineSettings, cluster: Cluster, *, cold: bool = False) -> None:
        """Check the topics in `topics` on `cluster`, with `cold` also the cold topic."""
        self._topic_settings, self._engine, self._cluster = topics, engine, cluster
        #: Topics that no other module watches (app/engine/faust_host/handover.py watches the others).
        self._own = (
            topics.changelog,
            topics.controls,
            topics.progress,
            topics.events_topic,
            topics.dead_letters,
            *((topics.cold,) if cold else ()),
        )
        #: Topics that must have the installation's number of partitions.
        self._read = (*topics.inputs, topics.forwards, topics.changelog)
        self._topics = {*self._read, *self._own}
        self._known = dict[str, str]()
        self._missing = 0

    async def changelog_id(self) -> str:
        """Return the changelog's topic id, "" if brokers do not have ids."""
        ids = await _persist(lambda: topic_ids(self._cluster, [self._topic_settings.changelog]))
        return ids[self._topic_settings.changelog].id if self._topic_settings.changelog in ids else ""

    async def committed(self, number: int, topics: Collection[str]) -> Mapping[str, int]:
        """Return the offsets that the group has committed for a partition of topics."""
        if not topics:
            return {}
        return await _persist(lambda: committed(self._cluster, self._topic_settings.app_id, topics, number))

    async def run(self, stores: Mapping[int, PartitionStore], check_settings: Callable[[], Awaitable[None]]) -> None:
        """Check the topics and the heads of the changelogs of `stores` until cancelled, and call `check_settings`.

        Raises LogChanged with instructions if a topic is not the same as at the start.
        """
        now = asyncio.get_running_loop().time
        checked = now()
        while True:
            try:
                await self.look()
                if now() - checked > _SETTINGS_S:
                    checked = now()
                    await check_settings()
                    await self.look_at_heads(stores)
            except (aiokafka.errors.KafkaError, TimeoutError) as error:
                log.debug("topics: no metadata: %r", error)
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Check the topics once. Raises LogChanged, or aiokafka.errors.KafkaError if no broker answers."""
        ids = await topic_ids(self._cluster, self._topics)
        gone = [topic for topic in self._own if topic not in ids]
        self._missing = self._missing + 1 if gone else 0
        if self._missing >= _LOOKS:
            raise LogChanged(f"{', '.join(gone)}: deleted while this worker was using it")
        for topic, (id_, partitions) in ids.items():
            if self._known.setdefault(topic, id_) != id_ and topic in self._own:
                raise LogChanged(f"{topic}: deleted and created again while this worker was using it")
            if topic in self._read and partitions != (wanted := self._topic_settings.partitions):
                raise LogChanged(
                    f"{topic} now has {partitions} partitions; it had {wanted} when this worker started. No worker "
                    "reads the new partitions, and Kafka cannot remove them"
                )

    async def look_at_heads(self, stores: Mapping[int, PartitionStore]) -> None:
        """Log an error for each changelog that has lost records that its database has, and for lost controls.

        Raises aiokafka.errors.KafkaError or TimeoutError if brokers do not answer.
        """
        for number, store in list(stores.items()):
            begin = await self._begin(self._topic_settings.changelog, number)
            if begin > whole_from(store.head):
                log.error(
                    "%s-%d begins at offset %d: its first records were deleted. The local database has them. "
                    "Restart this worker to write them to the changelog again.",
                    self._topic_settings.changelog,
                    number,
                    begin,
                    extra={"topic": self._topic_settings.changelog, "partition": number, "offset": begin},
                )
        controls = self._topic_settings.controls
        begin = await self._begin(controls, 0)
        if begin and controls not in self._engine.accept_loss:
            log.error(
                "topic %s begins at offset %d: its first records were deleted, and with them pauses and rates. "
                "Running workers still know these pauses and rates, but a worker that is restarted refuses to "
                "start. Write the controls again (docs/how-to/pause-and-rate.md), and set DELAY_ACCEPT_LOSS=%s "
                "before a restart.",
                controls,
                begin,
                controls,
                extra={"topic": controls, "offset": begin},
            )

    async def _begin(self, topic: str, number: int) -> int:
        async with asyncio.timeout(_PATIENCE_S):
            return await PartitionReader(self._cluster, topic, number).begin()


async def _persist(ask: Callable[[], Awaitable[T]]) -> T:
    """Call `ask` until brokers answer, and return the answer."""
    while True:
        try:
            return await ask()
        except aiokafka.errors.KafkaError as error:
            log.debug("no answer: %r", error)
            await asyncio.sleep(_AGAIN_S)
