"""Builds requests that schedule lost messages again: the same id, content and policies, and an absolute due time."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.dialects import decoded
from pipeline.ledger.records import place, request_of, source
from pipeline.ledger.tables import OTHERS, OUTCOMES, REQUESTS
from punctual.contract import headers as names
from punctual.contract import native, recurring
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.home import home_partition
from punctual.contract.policies import without_policies
from punctual.contract.request import Headers, Refusal, Request

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.kafka import Kafka
    from pipeline.lake import Lake

#: The minimum deduplication window of a rescued message. Within it, workers recognise the duplicates of a `rescue` that
#: was killed before its commit.
DEDUPE_MS = 86_400_000

_SENT = "source string, key binary, value binary, headers array<struct<key:string,value:binary>>, partition int"


def contents(lake: "Lake", kafka: "Kafka", lost: DataFrame) -> DataFrame:
    """Return the original requests (`REQUESTS`) of the lost messages, from the ledger or else from Kafka.

    The column source is that of the lost message. Requests that neither has any more are left out.
    """
    requests = lake.read("requests", REQUESTS).where("headers is not null")
    originals = _asked_by(requests, lost)
    without = lost.join(originals.select("source"), "source", "left_anti")
    for from_kafka in _from_kafka(lake, kafka, without):
        originals = originals.unionByName(from_kafka, allowMissingColumns=True)
    return originals


def _from_kafka(lake: "Lake", kafka: "Kafka", lost: DataFrame) -> Iterator[DataFrame]:
    """Yield the requests of lost messages that Kafka still has, one DataFrame per topic."""
    topic, number, offset = place(F.col("source"))
    places = lost.select(topic.alias("topic"), number.alias("partition"), offset.alias("offset"))
    spans = places.groupBy("topic", "partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    by_topic: dict[str, dict[int, tuple[int, int]]] = {}
    for row in spans.collect():
        by_topic.setdefault(row["topic"], {})[row["partition"]] = (row["first"], row["last"] + 1)
    for name, spans_by_partition in by_topic.items():
        begins, ends = kafka.begins(lake.spark, name)[name], kafka.ends(lake.spark, name)[name]
        begin = {number: max(first, begins[number]) for number, (first, _) in spans_by_partition.items()}
        end = {number: max(min(last, ends[number]), begin[number]) for number, (_, last) in spans_by_partition.items()}
        records = kafka.read(lake.spark, name, begin, end)
        yield _asked_by(records, lost)


def _asked_by(requests: DataFrame, lost: DataFrame) -> DataFrame:
    """Return the request of each lost life, with its source; occurrences of one series share their request."""
    lives = lost.select("source", request_of(F.col("source")).alias("request")).distinct()
    return requests.withColumn("request", source()).join(lives, "request").drop("request")


def overtaken(lake: "Lake", lost: DataFrame, originals: DataFrame, since_ms: int = 0) -> DataFrame:
    """Return the sources of lost messages whose id has been scheduled or cancelled since, by its sender's wish.

    `originals` are the requests from `contents`. Three kinds of later requests do not count: those before `since_ms`,
    those without effect, and those that the lost message had replaced, because they were older although they arrived
    later.
    """
    anew = F.col("op").isin("schedule", "cancel") & (F.col("stamp_ms") >= since_ms)
    nothing = lake.read("others", OTHERS).where(F.col("event").isin("refused", "duplicate", "conflict", "stale"))
    requests = lake.read("requests", REQUESTS).where(anew).withColumn("source", source())
    effective = requests.join(nothing.select(F.coalesce("by", "source").alias("source")), "source", "left_anti")
    later = effective.select("id", F.struct("stamp_ms", "offset").alias("later"), F.col("source").alias("later_source"))
    first = originals.select("source", F.struct("stamp_ms", "offset").alias("first"))
    both = lost.select("source", "id").join(first, "source").join(later, "id").where("later > first")
    ended = lake.read("outcomes", OUTCOMES).where(F.col("event").isin("replaced", "cancelled"))
    losers = ended.select(F.col("source").alias("later_source"), F.col("by").alias("source")).distinct()
    return both.join(losers, ["source", "later_source"], "left_anti").select("source").distinct()


def again(
    lost: DataFrame,
    originals: DataFrame,
    inputs: tuple[str, ...],
    partitions: int,
    dialects: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the requests that schedule lost messages again: columns source, key, value, headers, partition.

    A request goes to the home partition of its id, and is native whatever the dialect of the original was.

    Args:
        lost: the lost messages (`reconcile.lost.LOST`).
        originals: their requests (`contents`). A message whose source is another record's by now is left out.
        inputs: the installation's input topics.
        partitions: the number of partitions of each.
        dialects: the dialects of inputs that are not native (DELAY_INPUTS).
    """
    import pyarrow as pa  # noqa: PLC0415 - only a rescue with lost messages needs it

    rows = lost.select("source", F.col("id").alias("lost_id"), F.col("due_ms").alias("lost_due_ms"))
    fields = ("topic", "partition", "offset", "stamp_ms", "key", "value", "headers")
    both = rows.join(originals.select("source", *fields), "source")

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    binary = [("key", pa.binary()), ("value", pa.binary())]
    schema = pa.schema([("source", pa.string()), *binary, ("headers", pa.list_(header)), ("partition", pa.int32())])

    def sent(batches: "Iterable[pa.RecordBatch]") -> "Iterable[pa.RecordBatch]":
        for batch in batches:
            requests = (_sent(row, inputs, partitions, dialects or {}) for row in batch.to_pylist())
            yield pa.RecordBatch.from_pylist([row for row in requests if row is not None], schema=schema)

    return both.mapInArrow(sent, _SENT)


def _sent(
    row: dict[str, Any], inputs: tuple[str, ...], partitions: int, dialects: Mapping[str, str]
) -> dict[str, Any] | None:
    try:
        request = decoded(row, dialects.get(row["topic"], NATIVE.name))
    except Refusal:
        return None
    if request.id != row["lost_id"] or request.op != "schedule":
        return None
    request.due_ms = _at(request, row["lost_due_ms"])
    number = int(row["source"].rpartition("@")[2]) if "@" in row["source"] else 1
    return {
        "source": row["source"],
        "key": request.key,
        "value": request.value,
        "headers": [{"key": name, "value": value} for name, value in _headers(request, number)],
        "partition": home_partition(request.id, inputs, partitions),
    }


def _at(request: Request, lost_due_ms: int | None) -> int:
    """Return the due time of the new request: the last known one, or a series' planned time of the lost occurrence.

    The due time of an occurrence can include jitter or a move, and the series must continue with its planned times.
    """
    rule = request.recurrence
    if rule is None:
        return request.due_ms if lost_due_ms is None else lost_due_ms
    last_ms = None if lost_due_ms is None else rule.last_before(request.planned_ms - 1, lost_due_ms)
    return request.planned_ms if last_ms is None else last_ms


def _headers(request: Request, number: int) -> Headers:
    """Return the headers that schedule a message again, or the rest of a series from its occurrence `number` on.

    They override each policy of the requests topic. Jitter is left out because the due time includes it.
    """
    recurs = request.recurrence is not None
    if not recurs:
        request.dedupe_ms = max(DEDUPE_MS, request.dedupe_ms or 0)
    series = [] if request.recurrence is None else recurring.write(request.recurrence, number)
    again = [*native.again(request, request.due_ms), *((name, text.encode()) for name, text in series)]
    return [*again, *without_policies(dict(again), recurs=recurs), _asked_at(request)]


def _asked_at(request: Request) -> tuple[str, bytes | None]:
    """Return the header with the time of the original request: later commands win, even if the ledger lacks them."""
    at_ms = request.stamp_ms if request.asked_at_ms is None else min(request.stamp_ms, request.asked_at_ms)
    return names.ASKED_AT, b"%d" % at_ms
