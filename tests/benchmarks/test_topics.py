"""Topics, read from outside."""

import threading
from collections.abc import Callable

from confluent_kafka import Producer

from benchmarks import topics
from tests.harness.waiting import LIMIT_S


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush(LIMIT_S)


def test_a_topic_is_read_whole(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)  # one partition stays empty
    fill(bootstrap, topic, 1_000)

    assert sorted(int(record.value()) for record in topics.read(bootstrap, topic)) == list(range(1_000))


def test_reading_ends_although_the_topic_grows(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, over = new_topic(2), threading.Event()

    def grow() -> None:
        while not over.wait(0.002):
            fill(bootstrap, topic, 20)

    fill(bootstrap, topic, 100)
    thread = threading.Thread(target=grow)
    thread.start()
    try:
        found = sum(1 for _ in topics.read(bootstrap, topic))
    finally:
        over.set()
        thread.join()

    assert found >= 100


def test_the_last_append_is_that_of_the_latest_partition(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2, **{"message.timestamp.type": "LogAppendTime"})
    fill(bootstrap, topic, 200)

    assert topics.last_append_ms(bootstrap, topic) == max(it.timestamp()[1] for it in topics.read(bootstrap, topic))


def test_an_installation_s_topics_go_and_others_stay(bootstrap: str, new_topic: Callable[..., str]) -> None:
    mine, other = new_topic(prefix="gone"), new_topic(prefix="gone2")

    topics.delete_all(bootstrap, "gone")

    there = set(topics.consumer(bootstrap).list_topics(timeout=LIMIT_S).topics)
    assert mine not in there
    assert other in there
