"""Turns records of the request and event topics into rows of the ledger."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import place, request_of
from pipeline.dialects import with_requests
from pipeline.headers import header, named, text
from pipeline.ledger.tables import EVENTS, REQUESTS
from punctual.contract import headers as names
from punctual.contract.dialects.dialects import NATIVE

__all__ = ["events", "place", "request_of", "requests", "source"]

_JSON = (
    "event string, id string, at long, due long, to string, source string, late long, delivered string, "
    "reason string, by string, occurrence int"
)


def events(records: DataFrame) -> DataFrame:
    """Return a row of `EVENTS` for each record; a record that is not an event has the event `unreadable`.

    Each life has its own source: for a recurring message, from the second occurrence on, `<source>@<number>`.
    """
    event = F.from_json(F.col("value").cast("string"), _JSON)
    renamed = {"at_ms": "at", "due_ms": "due", "late_ms": "late"}
    fields = [
        F.col(name) if name in ("partition", "offset") else F.col(f"event_fields.{renamed.get(name, name)}").alias(name)
        for name in EVENTS.names
    ]
    rows = records.select(event.alias("event_fields"), "partition", "offset").select(*fields, "event_fields.occurrence")
    rows = rows.withColumn("source", F.concat_ws("@", "source", "occurrence")).drop("occurrence")
    readable = F.col("id").isNotNull() & F.col("source").isNotNull() & F.col("at_ms").isNotNull()
    return rows.withColumn("event", F.when(readable, F.coalesce("event", F.lit("unreadable"))).otherwise("unreadable"))


def requests(records: DataFrame, *, values: bool = True, dialect: str = NATIVE.name) -> DataFrame:
    """Return a row of `REQUESTS` for each record, decoded by the input's `dialect`.

    Key, value and headers are null unless `values`. A request from `promote` has the op `promoted`, because `promote`
    itself sends it again if it gets lost. The id is null for an automatic id (topic, partition and offset).
    """
    contents = {name: F.col(name) if values else F.lit(None) for name in ("key", "value", "headers")}
    return (_native(records) if dialect == NATIVE.name else _decoded(records, dialect)).select(
        "topic",
        "partition",
        "offset",
        "stamp_ms",
        "op",
        "id",
        "to",
        "at",
        "after",
        *(value.cast(REQUESTS[name].dataType).alias(name) for name, value in contents.items()),
    )


def _native(records: DataFrame) -> DataFrame:
    """Add the columns of each record's native headers; a malformed request has the columns that it gives."""
    op = F.coalesce(text(names.OP), F.lit("schedule"))
    return named(records).withColumns(
        {
            "op": F.when(header(names.PARKED).isNotNull(), F.lit("promoted")).otherwise(op),
            "id": text(names.ID),
            "to": text(names.TO),
            "at": text(names.AT),
            "after": text(names.AFTER),
        }
    )


def _decoded(records: DataFrame, dialect: str) -> DataFrame:
    return with_requests(records, dialect).withColumn("after", F.lit(None).cast("string"))


def source() -> Column:
    """Return the source of a record, `topic-partition-offset`, from its columns topic, partition and offset."""
    return F.concat_ws("-", "topic", "partition", "offset")
