"""One Spark session and one real broker for all tests of this process; each test has its own installation."""

import gc
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from pipeline.context import JobContext
from pipeline.kafka import Kafka
from pipeline.session import session
from tests.harness import class_archives
from tests.harness.waiting import LIMIT_S, eventually

#: Interpreting the plan of a few rows takes less time than compiling it.
_QUICK_SETTINGS = {
    "spark_sql_shuffle_partitions": "1",
    "spark_sql_adaptive_enabled": "false",
    "spark_sql_codegen_wholeStage": "false",
    "spark_sql_codegen_factoryMode": "NO_CODEGEN",
    # The text of each plan is for Spark's pages, which tests do not have.
    "spark_sql_ui_explainMode": "simple",
}
#: PySpark leaves the sockets through which it collects rows to the garbage collector.
_SOCKET_WARNING = "unclosed <socket"
PARTITIONS = 4
TOPICS = ("requests", "forwards", "events", "dead-letters", "cold", "progress")

Headers = Sequence[tuple[str, str | bytes | None]]
Produce = Callable[..., None]
Consume = Callable[[str], list[Message]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{_SOCKET_WARNING}:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return one session for all tests, because its start takes five seconds."""
    with session("tests", "local[2]", memory="1g", **_QUICK_SETTINGS) as spark_session:
        yield spark_session
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _SOCKET_WARNING, ResourceWarning)
            gc.collect()


@pytest.fixture
def context(spark: SparkSession, bootstrap: str, admin: AdminClient) -> JobContext:
    """Return an installation without a worker: its topics, with four partitions, and the destination `out`."""
    app_id = f"p{uuid.uuid4().hex[:8]}"
    config = {"message.timestamp.type": "LogAppendTime"}
    new_topics = [
        NewTopic(f"{app_id}-{name}", 1 if name == "progress" else PARTITIONS, 1, config=config) for name in TOPICS
    ]
    if "out" not in admin.list_topics(timeout=30).topics:
        new_topics.append(NewTopic("out", 1, 1))
    for future in admin.create_topics(new_topics).values():
        future.result(timeout=LIMIT_S)
    names = {topic.topic for topic in new_topics}
    eventually(lambda: names <= admin.list_topics(timeout=30).topics.keys(), what="new topics in the broker's metadata")
    return JobContext(spark, Kafka(bootstrap), app_id)


@pytest.fixture(scope="session")
def produce(bootstrap: str) -> Iterator[Produce]:
    """Return a function that appends a record to a topic and waits for its acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def send(topic: str, value: bytes | None = None, **record: Any) -> None:
        errors: list[Any] = []
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error), **record)
        producer.flush(LIMIT_S)
        assert errors == [None]

    yield send
    producer.flush(LIMIT_S)


@pytest.fixture(scope="session")
def consume(bootstrap: str) -> Consume:
    """Return a function that returns all committed records of a topic, partition by partition."""

    def read(topic: str) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        try:
            messages = []
            for number in consumer.list_topics(topic).topics[topic].partitions:
                begin, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
                if begin == end:
                    continue
                consumer.assign([TopicPartition(topic, number, begin)])
                while consumer.position([TopicPartition(topic, number)])[0].offset < end:
                    messages += consumer.consume(10_000, 0.2)
            return messages
        finally:
            consumer.close()

    return read


@pytest.fixture
def own_spark(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a command with its own JVM, which leaves its files in `tmp_path` when it is killed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    options = class_archives.java_options(class_archives.SPARK)
    return environment | {"TMPDIR": str(tmp_path), "JAVA_TOOL_OPTIONS": options}
