"""The state of the group's consumer for the rest of the worker: positions, ends, and answers of brokers."""

from typing import Any

import aiokafka
from faust.types import TP

from app.kafka.patches.leader_epochs import epochs


class GroupIntake:
    """Opens partitions of the group's consumer when they are ready, and returns their positions."""

    def __init__(self, app: Any) -> None:
        """Use the consumer of `app`."""
        self._app = app

    async def begin(self, partition: int, offsets: dict[str, int]) -> None:
        """Seek the partition of each input topic to its offset, and start to consume."""
        consumer = self._app.consumer
        tps = {TP(topic, partition): offset for topic, offset in offsets.items()}
        await consumer._thread.call_thread(self._seek, consumer._thread._ensure_consumer(), tps)
        consumer.resume_partitions(set(tps))

    @staticmethod
    async def _seek(consumer: aiokafka.AIOKafkaConsumer, tps: dict[TP, int]) -> None:
        for (topic, number), offset in tps.items():
            partition = aiokafka.TopicPartition(topic, number)
            consumer.seek(partition, offset)
            epochs.forget((topic, number))
            consumer.resume(partition)

    @property
    def held_back(self) -> bool:
        """Whether no requests are read because the disk is nearly full."""
        return bool(self._app.consumer.held_back)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which all records are in the table; None if not known."""
        return None if self.ahead(topic, partition) else self._app.consumer.reached.get(TP(topic, partition))

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether fetched records are not in the table yet."""
        return bool(self._app.consumer._ahead.get(TP(topic, partition), 0))

    def end(self, topic: str, partition: int) -> int | None:
        """Return the end of a topic's partition when it was last fetched; None if it was not."""
        state = self._app.consumer.state_of(TP(topic, partition))
        end: int | None = None if state is None else state.highwater
        return end

    def written(self, topic: str, partition: int) -> int | None:
        """Return the end of a partition's readable records when it was last fetched; None if it was not.

        Records that other partitions forward count before their transaction has ended.
        """
        state = self._app.consumer.state_of(TP(topic, partition))
        if state is None:
            return None
        end: int | None = state.highwater if topic == self._app.settings.topics.forwards else state.lso
        return end

    def heard(self, topic: str, partition: int) -> float | None:
        """Return when a broker last answered about a partition; None while it is not read."""
        consumer = self._app.consumer
        state = None if consumer.held_back else consumer.state_of(TP(topic, partition))
        return (state.timestamp or 0) if state is not None else None
