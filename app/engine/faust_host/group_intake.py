"""What the rest of the worker knows of the group's consumer: where it reads, how far it is, when brokers were heard."""

from typing import Any

import aiokafka
from faust.types import TP

from app.kafka.patches.leader_epochs import epochs


class GroupIntake:
    """Opens partitions of the group's consumer as they are ready."""

    def __init__(self, app: Any) -> None:
        """Serve the consumer of `app`."""
        self._app = app

    async def begin(self, partition: int, offsets: dict[str, int]) -> None:
        """Seek each input topic's partition to its offset and let records come."""
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
        """Whether nothing is read, for want of room on the disk."""
        return bool(self._app.consumer.held_back)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records are in the table or were none for it; None if not known."""
        return None if self.ahead(topic, partition) else self._app.consumer.reached.get(TP(topic, partition))

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether records have been fetched that are not in the table yet."""
        return bool(self._app.consumer._ahead.get(TP(topic, partition), 0))

    def end(self, topic: str, partition: int) -> int | None:
        """Return where a topic's partition ended when it was last fetched; None if it has not been yet."""
        state = self._app.consumer.state_of(TP(topic, partition))
        end: int | None = None if state is None else state.highwater
        return end

    def written(self, topic: str, partition: int) -> int | None:
        """Return up to where there was something to read when it was last fetched; None if it has not been yet.

        What other partitions forward counts before its transaction has ended.
        """
        state = self._app.consumer.state_of(TP(topic, partition))
        if state is None:
            return None
        end: int | None = state.highwater if topic == self._app.settings.topics.forwards else state.lso
        return end

    def heard(self, topic: str, partition: int) -> float | None:
        """Return when a broker last said what there is to read; None if it isn't to be read now."""
        consumer = self._app.consumer
        state = None if consumer.held_back else consumer.state_of(TP(topic, partition))
        return (state.timestamp or 0) if state is not None else None
