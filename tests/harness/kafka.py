"""Writes requests to a real Kafka and reads records, with another client than the worker's."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from tests.harness.waiting import LIMIT_S, ask_until, eventually

#: A chunk is given out when this is over, even if it is not full.
_CHUNK_S = 0.02
#: Consumers that have read a topic to its end, by their cluster: most of the CPU of a read is that of a connection.
_idle: dict[str, list[Consumer]] = {}
_NO_LEADER = {"LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"}

Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]


def now_ms() -> int:
    """The time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The record's place as `topic-partition-offset`."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    def header(self, name: str) -> str:
        """Return the text of a header."""
        return (dict(self.headers)[name] or b"").decode()


def _record(message: Message) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        list(message.headers() or []),
    )


def read(bootstrap: str, topic: str) -> Iterator[Record]:
    """Read a topic, committed records only, from its beginning to its present end."""
    with _reader(bootstrap) as consumer:
        left = set(_partitions(consumer, topic))
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        while left:
            for message in consumer.consume(5_000, _CHUNK_S):
                if message.error():
                    assert message.error().name() == "_PARTITION_EOF", f"{topic}: {message.error()}"
                    left.discard(message.partition())
                else:
                    yield _record(message)


@contextmanager
def _reader(bootstrap: str) -> Iterator[Consumer]:
    """Give a consumer that no other block uses; after the block, unless it fails, a later block gets it again."""
    idle = _idle.setdefault(bootstrap, [])
    options = {"group.id": "harness", "enable.auto.commit": False, "isolation.level": "read_committed"}
    at_once = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}  # an answer without records means the end
    consumer = idle.pop() if idle else Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **options, **at_once})
    try:
        yield consumer
    except BaseException:
        consumer.close()
        raise
    consumer.unassign()
    idle.append(consumer)


@contextmanager
def asked_for_ends(bootstrap: str, topic: str) -> Iterator[Callable[[], dict[int, int]]]:
    """Give what returns the ends of a topic's partitions, by one connection however often it is called."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "harness"})
    try:
        yield lambda: {number: _end(consumer, TopicPartition(topic, number)) for number in _partitions(consumer, topic)}
    finally:
        consumer.close()


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the offset after the last record of each partition."""
    with asked_for_ends(bootstrap, topic) as now:
        return now()


def _partitions(client: Consumer | AdminClient, topic: str) -> list[int]:
    """Return the partitions of a topic, once each has a leader; none if there is no such topic."""

    def led(found: TopicMetadata) -> bool:
        unknown = found.error and found.error.name() in _NO_LEADER
        return not unknown and all(one.leader >= 0 for one in found.partitions.values())

    found = ask_until(
        lambda: client.list_topics(topic, timeout=LIMIT_S).topics[topic],
        led,
        f"leaders of {topic}",
        lambda found: found.error,
    )
    return list(found.partitions)


def _end(consumer: Consumer, place: TopicPartition) -> int:
    found: list[int] = []

    def known() -> bool:
        try:
            found[:] = [consumer.get_watermark_offsets(place, LIMIT_S)[1]]
        except KafkaException as error:
            if error.args[0].name() not in _NO_LEADER:
                raise
        return bool(found)

    eventually(known, what=f"the end of {place.topic}-{place.partition}")
    return found[0]


def create_topic(bootstrap: str, topic: str, partitions: int = 1, replicas: int = 1, /, **config: str) -> str:
    """Create a topic whose records get the broker's append time; `config` has underscores for dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, partitions, replicas, config={"message.timestamp.type": "LogAppendTime", **settings})
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([new])[topic].result(LIMIT_S)
    # Brokers other than the controller learn about the topic later.
    eventually(lambda: len(_partitions(admin, topic)) >= partitions, what=f"all partitions of {topic}")
    return topic


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(LIMIT_S)
    eventually(lambda: topic not in admin.list_topics(timeout=LIMIT_S).topics, what=f"the end of {topic}")


class Requests:
    """Sends requests and commands to an installation; requests may be unsent until `flush`."""

    def __init__(self, bootstrap: str, app_id: str, **options: Any) -> None:
        self.topic = f"{app_id}-requests"
        usual = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0}
        self._producer = Producer({**usual, "partitioner": "murmur2_random", **options})

    def send(
        self,
        headers: Headers,
        key: bytes | None = None,
        value: bytes | None = None,
        *,
        partition: int = -1,
        timestamp_ms: int = 0,
        topic: str | None = None,
    ) -> None:
        """Send a record as it is; by default the partition follows from the key, as everywhere in Kafka."""
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        self._producer.produce(
            topic or self.topic, value, key, partition=partition, headers=given, timestamp=timestamp_ms
        )
        self._producer.poll(0)

    def schedule(
        self,
        id_: str,
        due_ms: int,
        to: str,
        value: bytes | None = b"",
        *,
        key: bytes | None = None,
        partition: int = -1,
        **more: str,
    ) -> None:
        """Send a request; without a key the id is the key, so that it goes to its home partition by itself."""
        headers = {"delay-id": id_, "delay-at": str(due_ms), "delay-to": to, **_named(more)}
        self.send(headers, id_.encode() if key is None else key, value, partition=partition)

    def command(self, op: str, id_: str, *, partition: int = -1, **more: str) -> None:
        """Send a command: `cancel`, `reschedule` (with `at=`), `deliver-now`."""
        headers = {"delay-op": op, "delay-id": id_, **_named(more)}
        self.send(headers, id_.encode(), partition=partition)

    def cancel(self, id_: str, *, partition: int = -1, **more: str) -> None:
        """Send a cancel."""
        self.command("cancel", id_, partition=partition, **more)

    def reschedule(self, id_: str, due_ms: int, *, partition: int = -1, **more: str) -> None:
        """Send another due time."""
        self.command("reschedule", id_, partition=partition, at=str(due_ms), **more)

    def flush(self) -> None:
        """Wait until all records are acknowledged, and all later ones will have a later stamp.

        Between partitions, the brokers' milliseconds decide which of two commands is the last one.
        """
        assert not self._producer.flush(LIMIT_S), "Kafka has not taken everything"
        acknowledged = now_ms()
        while now_ms() == acknowledged:
            time.sleep(0.0005)


def _named(more: Mapping[str, str]) -> dict[str, str]:
    return {f"delay-{name.replace('_', '-')}": value for name, value in more.items()}
