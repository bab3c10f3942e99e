"""Topics read from outside: their records, when they were last appended to, how far a group has read them."""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clock import wait_for

_TIMEOUT_S = 30.0
_CHUNK = 10_000
#: The end of a partition may hold records without content, the marks of transactions: the last record lies before them.
_BEFORE_END = 20


def consumer(bootstrap: str, group: str = "benchmarks", *, partition_eof: bool = False) -> Consumer:
    """Make a consumer of committed records that never commits offsets."""
    usual = {"enable.auto.commit": False, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    eof = {"enable.partition.eof": partition_eof}
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, **usual, **eof})


def create(bootstrap: str, topic: str, partitions: int, replicas: int) -> None:
    """Create a topic whose records get the broker's append time; it can be used when this returns."""
    new = NewTopic(topic, partitions, replicas, config={"message.timestamp.type": "LogAppendTime"})
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})  # kept: without it the future fails
    admin.create_topics([new])[topic].result(_TIMEOUT_S)

    def all_created() -> bool:
        metadata = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return len(metadata) == partitions and all(partition.leader >= 0 for partition in metadata.values())

    wait_for(all_created, _TIMEOUT_S, f"Topic {topic}")


def delete_all(bootstrap: str, app_id: str) -> None:
    """Delete an installation's topics and its consumer group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [name for name in admin.list_topics(timeout=_TIMEOUT_S).topics if name.startswith(f"{app_id}-")]
    for deleted in (admin.delete_topics(topics) if topics else {}).values():
        deleted.result(_TIMEOUT_S)
    for deleted_group in admin.delete_consumer_groups([app_id]).values():
        deleted_group.exception(_TIMEOUT_S)  # a group that a dead worker still seems to be in goes by itself


def read(bootstrap: str, topic: str, start: Mapping[int, int] | None = None) -> Iterator[Any]:
    """Read a topic's records (confluent_kafka messages) from its beginning, or from offsets on, to its present end."""
    yield from _read(bootstrap, topic, lambda number, _low, _high: start[number] if start else 0)


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the end offset of each partition of a topic."""
    reader = consumer(bootstrap)
    try:
        return _ends(reader, topic)
    finally:
        reader.close()


def late_ms(bootstrap: str, topic: str, start: Mapping[int, int]) -> list[int]:
    """Return how late each message is that has come to a destination from these offsets on."""
    messages = read(bootstrap, topic, start)
    return [message.timestamp()[1] - int(dict(message.headers())["delay-due"]) for message in messages]


def last_append_ms(bootstrap: str, topic: str) -> int:
    """Return the latest append time of a topic's last records, in epoch milliseconds; 0 if it is empty."""
    tails = _read(bootstrap, topic, lambda _number, low, high: max(low, high - _BEFORE_END))
    return max((message.timestamp()[1] for message in tails), default=0)


def _read(bootstrap: str, topic: str, first: Any) -> Iterator[Any]:
    reader = consumer(bootstrap, partition_eof=True)
    try:
        partitions = [TopicPartition(topic, number) for number in _partitions(reader, topic)]
        for partition in partitions:
            partition.offset = first(partition.partition, *reader.get_watermark_offsets(partition, _TIMEOUT_S))
        reader.assign(partitions)
        unread = {partition.partition for partition in partitions}
        while unread:
            for message in reader.consume(_CHUNK, 0.2):
                if not message.error():
                    yield message
                elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
                    unread.discard(message.partition())  # comes again whenever a growing topic is read to its end
                else:
                    raise KafkaException(message.error())
    finally:
        reader.close()


def _partitions(reader: Consumer, topic: str) -> list[int]:
    return sorted(reader.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)


def _ends(reader: Consumer, topic: str) -> dict[int, int]:
    places = (TopicPartition(topic, number) for number in _partitions(reader, topic))
    return {place.partition: reader.get_watermark_offsets(place, _TIMEOUT_S)[1] for place in places}


class Ends:
    """How far topics have been written."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = consumer(bootstrap)

    def total(self, topic: str) -> int:
        """Return the sum of the end offsets of a topic's partitions; 0 if it is not there."""
        return sum(_ends(self._consumer, topic).values())

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class Committed:
    """How far a consumer group has read a topic."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = consumer(bootstrap, group)
        self._partitions = [TopicPartition(topic, number) for number in _partitions(self._consumer, topic)]

    def total(self) -> int:
        """Return the sum of the committed offsets of all partitions."""
        committed = self._consumer.committed(self._partitions, timeout=_TIMEOUT_S)
        return sum(partition.offset for partition in committed if partition.offset > 0)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
