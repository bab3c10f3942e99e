"""The cluster's topics and the workers' group, as a repartition reads and changes them."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import aiokafka.errors as kafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from app.base import topic_names
from app.engine.topics.creation import partitions_by_topic
from app.engine.topics.internal_topics import plan
from app.ops.repartition.errors import NotReady
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings

#: All brokers know a created, deleted or extended topic within this time.
_LOOKS, _LOOK_S = 100, 0.1


class ClusterTopics:
    """Reads and changes the topics of one cluster."""

    def __init__(self, kafka_settings: KafkaSettings, topics: TopicSettings) -> None:
        """Use the login of `kafka_settings`."""
        self._topics = topics
        self._admin = AIOKafkaAdminClient(bootstrap_servers=kafka_settings.bootstrap, **kafka_settings.options())

    async def start(self) -> None:
        """Connect. Raises aiokafka's KafkaError if no broker responds."""
        await self._admin.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._admin.close()

    async def partitions(self) -> dict[str, int]:
        """Return how many partitions each topic has."""
        return await partitions_by_topic(self._admin)

    async def members(self) -> int:
        """Return how many workers are in the group."""
        [answer] = await self._admin.describe_consumer_groups([self._topics.app_id])
        error, _, _, _, _, members, *_ = answer.groups[0]
        if error:
            raise kafka.for_code(error)(f"the group {self._topics.app_id} cannot be described")
        return len(members)

    async def create_like(self, topic: str, partitions: int, like: str) -> None:
        """Create a topic, unless it exists, with the settings of the topic `like` that matter to workers."""
        wanted = plan(self._topics)[like][1]
        there = await self._config(like)
        minded = {name: there.get(name, value) for name, value in wanted.items()}
        minded["max.message.bytes"] = there["max.message.bytes"]
        await self.create(topic, partitions, minded)

    async def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic, unless it exists. Raises NotReady if the brokers do not allow it."""
        new = NewTopic(topic, partitions, self._topics.replication_factor, topic_configs=dict(config))
        answer = await self._admin.create_topics([new])
        for _, error, message in answer.topic_errors:
            kind = kafka.for_code(error)
            if kind not in (kafka.NoError, kafka.TopicAlreadyExistsError):
                like = ", ".join(f"{name}={value}" for name, value in config.items())
                msg = (
                    f"topic {topic} cannot be created: {kind.__name__}: {message}. Grant Create, or create it with "
                    f"{partitions} partitions and {like}. Then run the command again."
                )
                raise NotReady(msg)
        await self._settle({topic: partitions})

    async def create_layout(self) -> None:
        """Create the topic that records the progress of a change."""
        config = {**plan(self._topics)[self._topics.controls][1]}
        await self.create(topic_names.layout(self._topics.app_id), 1, config)

    async def grow(self, topics: Collection[str], partitions: int) -> None:
        """Give topics `partitions` partitions, if they have fewer.

        Raises NotReady if the brokers do not allow it.
        """
        there = await self.partitions()
        for topic in topics:
            if there.get(topic, partitions) >= partitions:
                continue
            try:
                await self._admin.create_partitions({topic: NewPartitions(partitions)})
            except kafka.KafkaError as error:
                msg = (
                    f"topic {topic} cannot be extended to {partitions} partitions: {error}. Grant Alter, or run "
                    f"kafka-topics --alter --topic {topic} --partitions {partitions}. Then run the command again."
                )
                raise NotReady(msg) from error
        await self._settle({topic: partitions for topic in topics if topic in there})

    async def delete(self, topic: str) -> bool:
        """Delete a topic; return whether it is gone."""
        if topic not in await self.partitions():
            return True
        await self._admin.delete_topics([topic])
        for _ in range(_LOOKS):
            if topic not in await self.partitions():
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    async def _settle(self, wanted: Mapping[str, int]) -> None:
        """Wait until the cluster shows the topics with their partitions."""
        for _ in range(_LOOKS):
            there = await self.partitions()
            if all(there.get(topic, 0) >= number for topic, number in wanted.items()):
                return
            await asyncio.sleep(_LOOK_S)
        msg = (
            f"the brokers do not show all partitions of the topics {', '.join(wanted)}. See the brokers' log, and "
            "run the command again."
        )
        raise NotReady(msg)

    async def _config(self, topic: str) -> dict[str, str]:
        [answer] = await self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        error, message, _, _, entries = answer.resources[0]
        if error:
            raise kafka.for_code(error)(message or topic)
        config: dict[str, Any] = {entry[0]: entry[1] for entry in entries}
        return config
