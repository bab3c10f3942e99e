"""Many messages due in the same millisecond: all are delivered once, in order, with memory to spare."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.harness.kafka import ends, now_ms
from tests.harness.waiting import eventually
from tests.harness.worker import Worker
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

MESSAGES = int(os.environ.get("BURST_MESSAGES", "300000"))
#: Messages for each second of lead: this machine and most others accept more a second.
LEAD_A_SECOND = 30_000
#: Measured: 239 with a million messages.
RSS_MIB = 400


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("burst", balanced=False) as made:  # its account is too long for a reader that keeps it in memory
        yield made


def peak_mib(worker: Worker) -> int:
    """The largest resident size that a worker has had."""
    status = Path(f"/proc/{worker.pid}/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


def produce(installation: Installation, to: str, due: int) -> None:
    """Send numbered requests, each partition's to the same partition of the destination."""
    options = {"linger.ms": 20, "queue.buffering.max.messages": 200_000, "compression.type": "lz4", "acks": "all"}
    producer = Producer({"bootstrap.servers": installation.bootstrap, **options})
    topic, at = installation.requests.topic, str(due).encode()
    for number in range(MESSAGES):
        partition = number % PARTITIONS
        headers = [("delay-to", to), ("delay-at", at), ("delay-to-partition", str(partition))]
        while True:
            try:
                producer.produce(topic, b"%d" % number, partition=partition, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


@pytest.mark.slow
def test_messages_due_at_once_come_once_in_order_and_in_bounded_memory(installation: Installation) -> None:
    to = installation.topic(PARTITIONS)
    due = now_ms() + 2_000 + 1_000 * MESSAGES // LEAD_A_SECOND
    produce(installation, to, due)
    seconds = 60 + MESSAGES / 5_000
    eventually(lambda: sum(ends(installation.bootstrap, to).values()) >= MESSAGES, seconds, "the last delivery")

    following = list(range(PARTITIONS))
    due_header = ("delay-due", b"%d" % due)
    for message in messages(installation.bootstrap, to):
        assert int(message.value()) == following[message.partition()]
        assert due_header in message.headers()
        assert message.timestamp()[1] >= due
        following[message.partition()] += PARTITIONS
    assert following == [MESSAGES + (number - MESSAGES) % PARTITIONS for number in range(PARTITIONS)]
    assert peak_mib(installation.worker) < RSS_MIB
    eventually(lambda: not any(record["pending"] for record in installation.progress().values()), what="an empty table")
    events = f"{installation.app_id}-events"
    eventually(lambda: sum(ends(installation.bootstrap, events).values()) >= 2 * MESSAGES, what="the last event")
    kinds = Counter(message.value()[:20] for message in messages(installation.bootstrap, events))
    assert kinds == {b'{"event":"accepted",': MESSAGES, b'{"event":"delivered"': MESSAGES}


def messages(bootstrap: str, topic: str) -> Iterator[Message]:
    """Read a topic to its end, without keeping it."""
    options = {"group.id": "burst", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    left = set(range(PARTITIONS))
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        while left:
            for message in consumer.consume(10_000, 0.1):
                if message.error():
                    left.discard(message.partition())
                else:
                    yield message
    finally:
        consumer.close()
