"""An installation with the topics that a worker creates, and the records of its requests topic."""

import uuid
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.waiting import LIMIT_S

PARTITIONS = 8


@dataclass
class Installation:
    """The requests topic of one installation."""

    bootstrap: str
    app_id: str = field(default_factory=lambda: f"client-{uuid.uuid4().hex[:12]}")
    _read: dict[int, int] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return f"{self.app_id}-requests"

    def create(self, **config: str) -> None:
        topic = NewTopic(
            self.topic, PARTITIONS, replication_factor=1, config={"message.timestamp.type": "LogAppendTime", **config}
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([topic])[self.topic].result(timeout=LIMIT_S)

    def requests(self, count: int) -> list[Message]:
        """Return the next `count` records of the topic, whatever their partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.app_id, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, p, self._read.get(p, 0)) for p in range(PARTITIONS)])
        try:
            found: list[Message] = consumer.consume(count, timeout=LIMIT_S)
        finally:
            consumer.close()
        assert len(found) == count
        for message in found:
            self._read[message.partition() or 0] = (message.offset() or 0) + 1
        return found


@pytest.fixture
def installation(bootstrap: str) -> Installation:
    made = Installation(bootstrap)
    made.create()
    return made
