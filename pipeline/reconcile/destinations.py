"""Compares the deliveries in the ledger with the records of their destination, by the headers of deliveries."""

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.headers import named, number, text
from pipeline.ledger.progress import looked_up
from pipeline.ledger.records import place, request_of, source
from pipeline.ledger.tables import ACCEPTED, OUTCOMES, REQUESTS
from punctual.contract import headers as names

if TYPE_CHECKING:
    from pipeline.context import JobContext
    from pipeline.kafka import Offsets
    from pipeline.lake import Lake

#: Columns of a deviation: the record's place (topic, partition, offset), the request, and the kind of deviation.
DEVIATION = ("kind", "delivered", "source", "id")
KINDS = ("lost", "doubled", "altered", "foreign")
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
        F.concat_ws("-", "topic", "partition", "offset").alias("delivered"),
        text(names.SOURCE).alias("source"),
        text(names.ID).alias("id"),
        number(names.DUE).alias("due_ms"),
        F.xxhash64("value").alias("content"),
        "stamp_ms",
    )
    records = read.where(F.col("source").isNotNull() & (F.col("stamp_ms") >= since_ms))
    requests = _contents(lake, context.topic("requests"))
    events = _delivered(lake, topic, since_ms, begins).join(requests, "source", "left")
    both = records.alias("record").join(events.alias("event"), "delivered", "full")
    same = [F.col(f"record.{name}").eqNullSafe(F.col(f"event.{name}")) for name in ("source", "due_ms")]
    # An occurrence of a series is delivered with its due time in its id.
    same.append(F.col("record.id").isin(F.col("event.id"), F.concat_ws("@", "event.id", "event.due_ms")))
    same.append(F.coalesce(F.col("record.content") == F.col("event.content"), F.lit(True)))  # noqa: FBT003 - a column
    is_told = F.col("event.source").isNotNull()
    kind = F.when(F.col("record.source").isNull(), "lost").when(is_told & ~reduce(and_, same), "altered")
    compared = both.select(
        kind.alias("kind"),
        "delivered",
        F.coalesce("event.source", "record.source").alias("source"),
        F.coalesce("event.id", "record.id").alias("id"),
    ).where("kind is not null")
    return compared.unionByName(_doubled(records)).unionByName(_foreign(lake, records)).select(*DEVIATION)


def _delivered(lake: "Lake", topic: str, since_ms: int, begins: "Offsets") -> DataFrame:
    """Return the deliveries whose records Kafka should still have."""
    _, partition, offset = place(F.col("delivered"))
    told = (F.col("event") == "delivered") & (F.col("to") == topic) & (F.col("at_ms") >= since_ms)
    there = lake.read("outcomes", OUTCOMES).where(told & (offset >= looked_up(begins, partition)))
    return there.select("delivered", request_of(F.col("source")).alias("source"), "id", "due_ms").distinct()


def _contents(lake: "Lake", topic: str) -> DataFrame:
    """Return a hash of the value of each request of a topic, as far as the ledger has values."""
    requests = lake.read("requests", REQUESTS).where((F.col("topic") == topic) & F.col("value").isNotNull())
    return requests.select(source().alias("source"), F.xxhash64("value").alias("content"))


def _doubled(records: DataFrame) -> DataFrame:
    """Return all but the first record of each request."""
    first = F.min(F.struct("stamp_ms", "delivered")).alias("first")
    several = records.groupBy("source", "id").agg(first, F.count("*").alias("count")).where("count > 1")
    again = records.join(several, ["source", "id"]).where("delivered <> first.delivered")
    return again.select(F.lit("doubled").alias("kind"), "delivered", "source", "id")


def _foreign(lake: "Lake", records: DataFrame) -> DataFrame:
    """Return the records of requests that were never accepted, from the time that the ledger covers."""
    covered = F.col("stamp_ms").between(int(lake.head.notes.get("whole_since", 0)), lake.head.at_ms - _SLACK_MS)
    accepted = lake.read("accepted", ACCEPTED).select("source")
    foreign = records.where(covered).join(accepted, "source", "left_anti")
    return foreign.select(F.lit("foreign").alias("kind"), "delivered", "source", "id")
