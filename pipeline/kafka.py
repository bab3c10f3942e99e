"""Topics as DataFrames: reads of committed records between fixed offsets, writes to a partition or by key."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.errors import DataLost, KafkaUnreachable, TopicMissing
from pipeline.jvm import packages
from pipeline.login import java_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

#: Offsets of a topic: partition to offset.
Offsets = dict[int, int]

_TIMEOUT_MS = "20000"
#: After each poll Spark requests the begin and end of the partition, and fetches again the records that the poll left
#: over (KafkaDataConsumer.scala, `fetch`). Polls are therefore as large as fetches of 1 MiB, instead of 500 records. At
#: the end of a partition that request waits behind an empty fetch, by Kafka's default for half a second.
_READING = {"max.poll.records": "10000", "fetch.max.wait.ms": "5"}
#: Records that one task reads: several tasks read a partition that has more.
_PIECE = 250_000
#: The usual records for a task, which writes their rows into one file (some 20 MB of small messages), and the minimum.
_ROWS, _FEW_ROWS = 250_000, 20_000
#: The default `max.request.size` of Java's producer, which counts bytes before compression.
_REQUEST_BYTES = 1_048_576
#: The options of producers: the benchmark of plain copies has the same.
WRITING = {"acks": "all", "compression.type": "lz4", "linger.ms": "20", "batch.size": "262144"}


@dataclass(frozen=True)
class Kafka:
    """A Kafka cluster: its `bootstrap` servers, and the `options` of Java's clients (security)."""

    bootstrap: str
    options: dict[str, str] = field(default_factory=java_options, repr=False)

    # offsets ---------------------------------------------------------------------------------------------------------
    def ends(self, spark: "SparkSession", *topics: str, committed: bool = True) -> dict[str, Offsets]:
        """Return the end offsets of each topic for readers of committed records, before any open transaction.

        Without `committed`, return the end offsets of all records. Raises TopicMissing, KafkaUnreachable.
        """
        return self._offsets(spark, topics, lambda spec: spec.latest(), committed=committed)

    def begins(self, spark: "SparkSession", *topics: str) -> dict[str, Offsets]:
        """Return the first offsets of each topic that Kafka still has. Raises TopicMissing, KafkaUnreachable."""
        return self._offsets(spark, topics, lambda spec: spec.earliest())

    def since(self, spark: "SparkSession", when_ms: int, *topics: str) -> dict[str, Offsets]:
        """Return the offset of each partition's first record since `when_ms`, or its end.

        Raises TopicMissing, KafkaUnreachable.
        """
        offsets, ends = self._offsets(spark, topics, lambda spec: spec.forTimestamp(when_ms)), self.ends(spark, *topics)
        return {
            topic: {number: at if at >= 0 else ends[topic][number] for number, at in partition_offsets.items()}
            for topic, partition_offsets in offsets.items()
        }

    def cluster_id(self, spark: "SparkSession") -> str:
        """Return the id of the cluster. Raises KafkaUnreachable."""
        with self._admin(spark) as admin:
            return str(admin.describeCluster().clusterId().get())

    def missing(self, spark: "SparkSession", topics: "Iterable[str]") -> list[str]:
        """Return the topics that do not exist; a topic that this user may not describe counts as existing.

        Raises KafkaUnreachable.
        """
        jvm, absent = packages(spark), []
        with self._admin(spark) as admin:
            answers = admin.describeTopics(jvm.java.util.ArrayList(list(topics))).topicNameValues()
            for topic in sorted(topics):
                try:
                    answers.get(topic).get()
                except Py4JJavaError as error:
                    kind = error.java_exception.getCause().getClass().getSimpleName()
                    if kind == "UnknownTopicOrPartitionException":
                        absent.append(topic)
                    elif kind != "TopicAuthorizationException":
                        raise
        return absent

    def largest_record(self, spark: "SparkSession", topic: str) -> int:
        """Return the maximum size in bytes of a record of a topic. Raises TopicMissing, KafkaUnreachable."""
        jvm = packages(spark)
        resources = jvm.org.apache.kafka.common.config.ConfigResource
        resource = resources(resources.Type.TOPIC, topic)
        with self._admin(spark) as admin:
            configs = admin.describeConfigs(jvm.java.util.List.of(resource)).all().get()
            return int(configs.get(resource).get("max.message.bytes").value())

    def _offsets(
        self, spark: "SparkSession", topics: tuple[str, ...], spec_of: Any, *, committed: bool = True
    ) -> dict[str, Offsets]:
        jvm = packages(spark)
        levels = jvm.org.apache.kafka.common.IsolationLevel
        isolation = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        with self._admin(spark) as admin:
            described = admin.describeTopics(jvm.java.util.ArrayList(list(topics))).allTopicNames().get()
            specs = jvm.java.util.HashMap()
            for topic in topics:
                for info in described.get(topic).partitions().toArray():
                    place = jvm.org.apache.kafka.common.TopicPartition(topic, info.partition())
                    specs.put(place, spec_of(jvm.org.apache.kafka.clients.admin.OffsetSpec))
            options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(isolation)
            answer = admin.listOffsets(specs, options).all().get()
            offsets: dict[str, Offsets] = {topic: {} for topic in topics}
            # Java's other iterators end with an exception, about which PySpark asks Java a dozen questions.
            for place in specs.keySet().toArray():
                offsets[place.topic()][place.partition()] = answer.get(place).offset()
            return offsets

    @contextmanager
    def _admin(self, spark: "SparkSession") -> "Iterator[Any]":
        jvm = packages(spark)
        settings = jvm.java.util.Properties()
        timeouts = {"request.timeout.ms": "10000", "default.api.timeout.ms": _TIMEOUT_MS}
        for name, value in {"bootstrap.servers": self.bootstrap, **timeouts, **self.options}.items():
            settings.put(name, value)
        try:
            admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
            try:
                yield admin
            finally:
                admin.close()
        except Py4JJavaError as error:
            raise _named(error, self.bootstrap) from error

    # records ---------------------------------------------------------------------------------------------------------
    def read(self, spark: "SparkSession", topic: str, begin: Offsets, end: Offsets) -> "DataFrame":
        """Return a topic's committed records from `begin` up to, not including, `end`.

        Columns: key, value (binary), topic, partition (int), offset (long), stamp_ms (long), headers (array of key and
        value; null where there are none). A partition that `begin` doesn't name is read from its first offset.
        """
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        for name, value in (_READING | self.options).items():
            reader = reader.option(f"kafka.{name}", value)
        records = (
            reader.option("assign", json.dumps({topic: sorted(end)}))
            .option("startingOffsets", json.dumps({topic: {str(p): begin.get(p, -2) for p in end}}))
            .option("endingOffsets", json.dumps({topic: {str(p): offset for p, offset in end.items()}}))
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .option("maxRecordsPerPartition", str(_PIECE))
            .load()
        )
        stamp_ms = F.unix_millis("timestamp").alias("stamp_ms")
        return records.select("key", "value", "topic", "partition", "offset", stamp_ms, "headers")

    def write(self, records: "DataFrame", topic: str) -> None:
        """Append records: columns key, value, headers, and optionally partition.

        Return when all records are acknowledged. Delivery is at least once: a killed run may have written some records,
        and Spark may repeat a task. Raises TopicMissing, KafkaUnreachable.
        """
        # This fails at once for a missing topic, for which the sink would wait a minute.
        largest = max(_REQUEST_BYTES, self.largest_record(records.sparkSession, topic))
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap).option("topic", topic)
        for name, value in (WRITING | {"max.request.size": str(largest)} | self.options).items():
            writer = writer.option(f"kafka.{name}", value)
        writer.option("includeHeaders", "true").save()


def new_records(
    kafka: Kafka, spark: "SparkSession", topic: str, done: Offsets, *, accept_gap: bool = False, whole: bool = False
) -> "tuple[DataFrame, Offsets]":
    """Return the committed records of a topic from the offsets `done` on, and their end offsets.

    A partition that is not in `done` begins with its first existing record; with `whole`, at offset 0. Raises DataLost
    if Kafka has deleted some of the records; with `accept_gap`, continue with the first existing record instead.
    """
    begins, ends = kafka.begins(spark, topic)[topic], kafka.ends(spark, topic)[topic]
    first = {number: done.get(number, 0 if whole else begin) for number, begin in begins.items()}
    lost = {number: begin - first[number] for number, begin in begins.items() if begin > first[number]}
    short = [number for number, end in ends.items() if end < done.get(number, 0)]
    if short:
        raise DataLost(
            f"{topic} partition {short[0]} ends at {ends[short[0]]}, and was read up to {done[short[0]]} before: "
            f"the topic was created again. Use a new directory."
        )
    if lost and not accept_gap:
        number = min(lost)
        raise DataLost(
            f"{topic} has lost records that were never read: {lost[number]:,} of partition {number} alone, "
            f"{sum(lost.values()):,} in all. Run the command more often than the retention of the topic. To continue "
            f"without them, run `ledger` or `park` with --accept-gap."
        )
    return kafka.read(spark, topic, {number: max(first[number], begin) for number, begin in begins.items()}, ends), ends


def in_tasks(rows: "DataFrame", about: int) -> "DataFrame":
    """Return the rows of `about` new records in few tasks, because each writes files, but in one for each core."""
    cores = rows.sparkSession.sparkContext.defaultParallelism
    return rows.coalesce(max(1, about // _ROWS, min(cores, about // _FEW_ROWS)))


def _named(error: Py4JJavaError, bootstrap: str) -> Exception:
    """Return the pipeline's error for an error of a Java client."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    kind, message = cause.getClass().getSimpleName(), cause.getMessage()
    if kind == "UnknownTopicOrPartitionException":
        return TopicMissing(
            f"a topic is missing on {bootstrap}: {message} Workers create the topics (delay-cold: only with "
            f"DELAY_HORIZON). Check DELAY_APP_ID."
        )
    return KafkaUnreachable(f"Kafka at {bootstrap} failed: {kind}: {message} Check KAFKA_BOOTSTRAP_SERVERS.")
