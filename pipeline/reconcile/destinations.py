"""Compares the deliveries in the ledger with the records of their destination, by the headers of deliveries."""

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import first_life, life_of, life_of_request, place, schema, source_text
from pipeline.headers import named, number, text
from pipeline.ledger.progress import looked_up
from pipeline.ledger.tables import REQUESTS
from punctual.contract import headers as names

if TYPE_CHECKING:
    from pipeline.context import JobContext
    from pipeline.kafka import Offsets
    from pipeline.lake import Lake

#: Columns of a deviation: the record's place (topic, partition, offset), the request, and the kind of deviation.
DEVIATION = ("kind", "delivered", "source", "id")
KINDS = ("lost", "doubled", "altered", "foreign")
_PLACE = ("partition", "offset")
_DELIVERED = schema(
    life="life", event="string", to="string", at_ms="long", delivered="string", id="string", due_ms="long"
)
#: Records of the last seconds may have events that the ledger has not read yet.
_SLACK_MS = 10_000


def deviations(context: "JobContext", lake: "Lake", topic: str, since_ms: int = 0) -> DataFrame:
    """Return the deviations (`DEVIATION`) of a destination from the ledger's deliveries since `since_ms`.

    A delivery is *lost* if its record is gone although Kafka still has the offset, and *altered* if the record has
    another request, id, due time or value. Of records of one request, all but the first are *doubled*. A record is
    *foreign* if it names a request that was never accepted. Records without the header `delay-source` are not
    Punctual's. Raises TopicMissing, KafkaUnreachable.
    """
    spark, kafka = context.spark, context.kafka
    begins, ends = kafka.begins(spark, topic)[topic], kafka.ends(spark, topic)[topic]
    read = named(kafka.read(spark, topic, begins, ends)).select(
        *_PLACE,
        text(names.SOURCE).alias("source"),
        text(names.ID).alias("id"),
        number(names.DUE).alias("due_ms"),
        F.xxhash64("value").alias("content"),
        "stamp_ms",
    )
    records = read.where(F.col("source").isNotNull() & (F.col("stamp_ms") >= since_ms))
    requests = _contents(lake, context.topic("requests"))
    events = _delivered(lake, topic, since_ms, begins).join(requests, "life", "left")
    both = records.alias("record").join(events.alias("event"), [*_PLACE], "full")
    same = [F.col(f"record.{name}").eqNullSafe(F.col(f"event.{name}")) for name in ("source", "due_ms")]
    # An occurrence of a series is delivered with its due time in its id.
    same.append(F.col("record.id").isin(F.col("event.id"), F.concat_ws("@", "event.id", "event.due_ms")))
    same.append(F.coalesce(F.col("record.content") == F.col("event.content"), F.lit(True)))  # noqa: FBT003 - a column
    is_told = F.col("event.source").isNotNull()
    kind = F.when(F.col("record.source").isNull(), "lost").when(is_told & ~reduce(and_, same), "altered")
    compared = both.select(
        kind.alias("kind"),
        *_PLACE,
        F.coalesce("event.source", "record.source").alias("source"),
        F.coalesce("event.id", "record.id").alias("id"),
    ).where("kind is not null")
    rows = compared.unionByName(_doubled(records)).unionByName(_foreign(lake, records))
    return rows.withColumn("delivered", F.concat_ws("-", F.lit(topic), *_PLACE)).select(*DEVIATION)


def _delivered(lake: "Lake", topic: str, since_ms: int, begins: "Offsets") -> DataFrame:
    """Return the deliveries whose records Kafka should still have."""
    _, partition, offset = place(F.col("delivered"))
    is_delivered = (F.col("event") == "delivered") & (F.col("to") == topic) & (F.col("at_ms") >= since_ms)
    there = lake.read("outcomes", _DELIVERED).where(is_delivered & (offset >= looked_up(begins, partition)))
    columns = (
        partition.alias("partition"),
        offset.alias("offset"),
        first_life(F.col("life")).alias("life"),
        "id",
        "due_ms",
    )
    return there.select(*columns).distinct().withColumn("source", source_text(F.col("life")))


def _contents(lake: "Lake", topic: str) -> DataFrame:
    """Return a hash of the value of each request of a topic, as far as the ledger has values."""
    requests = lake.read("requests", REQUESTS).where((F.col("topic") == topic) & F.col("value").isNotNull())
    return requests.select(life_of_request().alias("life"), F.xxhash64("value").alias("content"))


def _doubled(records: DataFrame) -> DataFrame:
    """Return all but the first record of each request."""
    first = F.min(F.struct("stamp_ms", *_PLACE)).alias("first")
    several = records.groupBy("source", "id").agg(first, F.count("*").alias("count")).where("count > 1")
    again = records.join(several, ["source", "id"]).where("(partition, offset) <> (first.partition, first.offset)")
    return again.select(F.lit("doubled").alias("kind"), *_PLACE, "source", "id")


def _foreign(lake: "Lake", records: DataFrame) -> DataFrame:
    """Return the records of requests that were never accepted, from the time that the ledger covers."""
    covered = F.col("stamp_ms").between(int(lake.head.notes.get("whole_since", 0)), lake.head.at_ms - _SLACK_MS)
    accepted = lake.read("accepted", schema(life="life"))
    foreign = records.where(covered).withColumn("life", life_of(F.col("source"))).join(accepted, "life", "left_anti")
    return foreign.select(F.lit("foreign").alias("kind"), *_PLACE, "source", "id")
