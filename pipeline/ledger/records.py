"""Records of the request and event topics as the ledger's rows."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.headers import header, named, text
from pipeline.ledger.tables import EVENTS, REQUESTS
from punctual.contract import headers as names

_JSON = (
    "event string, id string, at long, due long, to string, source string, late long, delivered string, "
    "reason string, by string"
)


def events(records: DataFrame) -> DataFrame:
    """Return a row of `EVENTS` for each record; one that is no event has the event `unreadable`."""
    told = F.from_json(F.col("value").cast("string"), _JSON)
    renamed = {"at_ms": "at", "due_ms": "due", "late_ms": "late"}
    fields = [
        F.col(name) if name in ("partition", "offset") else F.col(f"told.{renamed.get(name, name)}").alias(name)
        for name in EVENTS.names
    ]
    rows = records.select(told.alias("told"), "partition", "offset").select(fields)
    readable = F.col("id").isNotNull() & F.col("source").isNotNull() & F.col("at_ms").isNotNull()
    return rows.withColumn("event", F.when(readable, F.coalesce("event", F.lit("unreadable"))).otherwise("unreadable"))


def requests(records: DataFrame, *, values: bool = True, native: bool = True) -> DataFrame:
    """Return a row of `REQUESTS` for each record: without key, value and headers unless `values`.

    The op of what `promote` has sent is `promoted`: what gets lost on that way, it sends again itself. The id is null
    where the record's place is the id.

    What another dialect says is not read here: those records have the op `foreign`, of which nothing is judged that
    has left no event, and the id, destination and time that native headers say beside it. Their lives are in the
    events as those of all others are.
    """
    op = F.coalesce(text(names.OP), F.lit("schedule")) if native else F.lit("foreign")
    kept = {name: F.col(name) if values else F.lit(None) for name in ("key", "value", "headers")}
    return named(records).select(
        "topic",
        "partition",
        "offset",
        "stamp_ms",
        F.when(header(names.PARKED).isNotNull(), F.lit("promoted")).otherwise(op).alias("op"),
        text(names.ID).alias("id"),
        text(names.TO).alias("to"),
        text(names.AT).alias("at"),
        text(names.AFTER).alias("after"),
        *(value.cast(REQUESTS[name].dataType).alias(name) for name, value in kept.items()),
    )


def source() -> Column:
    """Return the place of a record as the contract writes it, from its columns topic, partition and offset."""
    return F.concat_ws("-", "topic", "partition", "offset")


def place(source: Column) -> tuple[Column, Column, Column]:
    """Return topic, partition and offset of a place, numbers null where it is none. Topics may have dashes too."""
    parts = F.split(source, "-(?=[0-9]+-[0-9]+$)|-(?=[0-9]+$)")
    return F.get(parts, F.lit(0)), F.get(parts, F.lit(1)).try_cast("int"), F.get(parts, F.lit(2)).try_cast("long")
