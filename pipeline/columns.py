"""The columns of the Delta tables, with comments, and how the jobs see them: times as numbers, sources as text."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(_HEADER),
    "life": StructType(
        [
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("occurrence", IntegerType()),
        ]
    ),
}
#: Times that the jobs compute with (epoch milliseconds), and the timestamps in the tables.
_TIMES: Final = {"at_ms": "at", "due_ms": "due", "stamp_ms": "stamp", "order_ms": "ordered"}
#: Other columns that have another name in the tables.
_RENAMED: Final = {"at": "given_at", "after": "given_after"}
_SOURCE: Final = ("source_topic", "source_partition", "source_offset")
_LIFE: Final = ("topic", "partition", "offset", "occurrence")
#: Milliseconds beyond this do not fit into a timestamp.
_MAX_MS: Final = 9_000_000_000_000_000

#: The columns that every table has; they name its directories.
PARTITIONS: Final = ("kind", "day")
_PLACES: Final = {
    "kind": ("string", "what the row is: the name of a table of the pipeline's documentation"),
    "day": ("date", "UTC day"),
    "commit": ("long", "number of the commit that wrote the row"),
    "id": ("string", "ID of the message; null in a request with an automatic ID"),
    "source_topic": ("string", "topic of the request that began this life of the message"),
    "source_partition": ("int", "partition of that request"),
    "source_offset": ("long", "offset of that request"),
    "to": ("string", "destination"),
    "due": ("timestamp", "due time"),
    "partition": ("int", "partition of the record from which the row was read"),
    "offset": ("long", "offset of the record from which the row was read"),
    "key": ("binary", "key of the message"),
    "value": ("binary", "value of the message"),
    "headers": ("headers", "headers of the message"),
}
#: The columns of each Delta table: type and comment.
LAYOUTS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "ledger": {
        **_PLACES,
        "event": ("string", "event of the worker"),
        "occurrence": ("int", "number of the occurrence of a recurring message, from the second one on"),
        "at": ("timestamp", "when the event happened"),
        "late_ms": ("long", "delay of the delivery after the due time, in milliseconds"),
        "delivered": ("string", "topic, partition and offset of the delivery"),
        "reason": ("string", "reason of a failure"),
        "by": ("string", "source of the command that caused the event"),
        "topic": ("string", "topic of a request"),
        "stamp": ("timestamp", "timestamp of the record of a request"),
        "op": ("string", "operation of a request"),
        "given_at": ("string", "due time as the request gives it"),
        "given_after": ("string", "delay as the request gives it"),
        "run": ("string", "run of the command that wrote the row"),
        "namespace": ("string", "namespace, in rows of the account"),
        "count": ("long", "number of messages, in rows of the account"),
    },
    "cold tier": {
        **_PLACES,
        "ordered": ("timestamp", "order of the record among the records of its ID"),
    },
}
#: Statistics of the files are kept for these alone: no ID, key or value is copied into the log of a table.
STATISTICS: Final = ("commit", "at", "due", "stamp", "ordered", "partition", "offset", "source_offset")


def schema(**columns: str) -> StructType:
    """Return the schema of rows from their columns' types.

    Types are string, int, long, binary, headers (key, value), and life (topic, partition, offset, occurrence).
    """
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


def stored_schema(kind: str) -> StructType:
    """Return the schema of the Delta table of a kind, with comments."""
    columns = LAYOUTS[kind].items()
    return StructType([StructField(name, _TYPES[type_], metadata={"comment": why}) for name, (type_, why) in columns])


def stored(rows: DataFrame, kind: str, name: str) -> DataFrame:
    """Return rows as the Delta table of a `kind` has them.

    A row is of the kind `name` and of the UTC day of at_ms or stamp_ms, unless it has columns for them.
    """
    there = set(rows.columns)
    values = (
        {"kind": F.lit(name), "day": _day(there)}
        | _source_columns(there)
        | {each: F.col(each) for each in there - _RENAMED.keys()}
    )
    values |= {_RENAMED[each]: F.col(each) for each in there & _RENAMED.keys()}
    values |= {_TIMES[each]: _timestamp(F.col(each)) for each in there & _TIMES.keys()}
    return _in_order(rows, kind, values)


def rewritten(rows: DataFrame, kind: str, values: Mapping[str, Column]) -> DataFrame:
    """Return rows of the Delta table of a `kind` with some columns changed, in the order of the present columns."""
    return _in_order(rows, kind, {name: F.col(name) for name in rows.columns} | dict(values))


def _in_order(rows: DataFrame, kind: str, values: Mapping[str, Column]) -> DataFrame:
    """Return the columns of the Delta table of a `kind`, null where there is no value."""
    return rows.select(
        *(
            values.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name, metadata=each.metadata)
            for each in stored_schema(kind)
        )
    )


def seen(rows: DataFrame, columns: StructType) -> DataFrame:
    """Return rows of a Delta table as the jobs see them; a column that the table lacks is null."""
    return rows.select(*(_seen(each.name, set(rows.columns)).cast(each.dataType).alias(each.name) for each in columns))


def _seen(name: str, there: set[str]) -> Column:
    if name == "source":
        whole = F.concat_ws("-", *_SOURCE)
        return F.concat_ws("@", whole, "occurrence") if "occurrence" in there else whole
    if name == "life":
        return F.struct(*_SOURCE, "occurrence")
    of = _TIMES.get(name) or _RENAMED.get(name, name)
    if of not in there:
        return F.lit(None)
    return F.unix_millis(of) if name in _TIMES else F.col(of)


def _source_columns(there: set[str]) -> dict[str, Column]:
    if not there & {"life", "source"}:
        return {}
    life = F.col("life") if "life" in there else life_of(F.col("source"))
    return {name: life[of] for name, of in zip((*_SOURCE, "occurrence"), _LIFE, strict=True)}


def life_of(source: Column) -> Column:
    """Return the life that a source names: topic, partition and offset of its request, and its occurrence."""
    number = F.when(request_of(source) != source, F.substring_index(source, "@", -1).try_cast("int"))
    return F.struct(*(each.alias(name) for name, each in zip(_LIFE, (*place(source), number), strict=True)))


def life_of_request() -> Column:
    """Return the life that a request begins, from the request's columns topic, partition and offset."""
    return F.struct(*_LIFE[:-1], F.lit(None).cast("int").alias(_LIFE[-1]))


def first_life(life: Column) -> Column:
    """Return the life that began with the same request; that of a later occurrence differs from it."""
    return life.withField("occurrence", F.lit(None).cast("int"))


def source_text(life: Column) -> Column:
    """Return the text that names a life, as workers write it."""
    return F.concat_ws("@", F.concat_ws("-", *(life[name] for name in _LIFE[:-1])), life["occurrence"])


def request_of(life: Column) -> Column:
    """Return the source of a life's request: for an occurrence, the request of its series."""
    return F.when(life.contains("@"), F.regexp_replace(life, "@[0-9]+$", "")).otherwise(life)


def place(source: Column) -> tuple[Column, Column, Column]:
    """Return topic, partition and offset of a source; a source of another form is the topic, with null numbers.

    Topics may have dashes too. A regular expression would take ten times as long.
    """
    request = request_of(source)
    numbers = F.substring_index(request, "-", -2)
    partition = F.substring_index(numbers, "-", 1).try_cast("int")
    offset = F.substring_index(numbers, "-", -1).try_cast("long")
    whole = partition.isNotNull() & offset.isNotNull()
    topic = F.substr(request, F.lit(1), F.length(request) - F.length(numbers) - 1)
    return F.when(whole, topic).otherwise(request), F.when(whole, partition), F.when(whole, offset)


def _day(there: set[str]) -> Column:
    at_ms = next((name for name in ("at_ms", "stamp_ms") if name in there), None)
    return F.lit(None) if at_ms is None else F.to_date(_timestamp(F.col(at_ms)))


def _timestamp(at_ms: Column) -> Column:
    return F.timestamp_millis(F.when(at_ms.isNotNull(), F.least(at_ms, F.lit(_MAX_MS))))
