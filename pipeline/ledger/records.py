"""Records of the request and event topics as the ledger's rows."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.dialects import said
from pipeline.headers import header, named, text
from pipeline.ledger.tables import EVENTS, REQUESTS
from punctual.contract import headers as names
from punctual.contract.dialects.dialects import NATIVE

_JSON = (
    "event string, id string, at long, due long, to string, source string, late long, delivered string, "
    "reason string, by string, occurrence int"
)


def events(records: DataFrame) -> DataFrame:
    """Return a row of `EVENTS` for each record; one that is no event has the event `unreadable`.

    Each life has a source of its own here: of a recurring message from the second occurrence on `<source>@<number>`.
    """
    told = F.from_json(F.col("value").cast("string"), _JSON)
    renamed = {"at_ms": "at", "due_ms": "due", "late_ms": "late"}
    fields = [
        F.col(name) if name in ("partition", "offset") else F.col(f"told.{renamed.get(name, name)}").alias(name)
        for name in EVENTS.names
    ]
    rows = records.select(told.alias("told"), "partition", "offset").select(*fields, "told.occurrence")
    rows = rows.withColumn("source", F.concat_ws("@", "source", "occurrence")).drop("occurrence")
    readable = F.col("id").isNotNull() & F.col("source").isNotNull() & F.col("at_ms").isNotNull()
    return rows.withColumn("event", F.when(readable, F.coalesce("event", F.lit("unreadable"))).otherwise("unreadable"))


def requests(records: DataFrame, *, values: bool = True, dialect: str = NATIVE.name) -> DataFrame:
    """Return a row of `REQUESTS` for each record: without key, value and headers unless `values`.

    What it asks for is read as the input's `dialect` has it. The op of what `promote` has sent is `promoted`: what gets
    lost on that way, it sends again itself. The id is null where the record's place is the id.
    """
    kept = {name: F.col(name) if values else F.lit(None) for name in ("key", "value", "headers")}
    return (_native(records) if dialect == NATIVE.name else _said(records, dialect)).select(
        "topic",
        "partition",
        "offset",
        "stamp_ms",
        "op",
        "id",
        "to",
        "at",
        "after",
        *(value.cast(REQUESTS[name].dataType).alias(name) for name, value in kept.items()),
    )


def _native(records: DataFrame) -> DataFrame:
    """Return records beside what their native headers say; of what is written wrongly as much as is there."""
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


def _said(records: DataFrame, dialect: str) -> DataFrame:
    return said(records, dialect).withColumn("after", F.lit(None).cast("string"))


def source() -> Column:
    """Return the place of a record as the contract writes it, from its columns topic, partition and offset."""
    return F.concat_ws("-", "topic", "partition", "offset")


def request_of(life: Column) -> Column:
    """Return the place of the request that a life is of: that of the series for an occurrence."""
    return F.regexp_replace(life, "@[0-9]+$", "")


def place(source: Column) -> tuple[Column, Column, Column]:
    """Return topic, partition and offset of a place, numbers null where it is none. Topics may have dashes too."""
    parts = F.split(request_of(source), "-(?=[0-9]+-[0-9]+$)|-(?=[0-9]+$)")
    return F.get(parts, F.lit(0)), F.get(parts, F.lit(1)).try_cast("int"), F.get(parts, F.lit(2)).try_cast("long")
