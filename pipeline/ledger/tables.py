"""The ledger's tables: their columns, and which events go where. Times are epoch milliseconds."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_TYPES: dict[str, DataType] = {"string": StringType(), "int": IntegerType(), "long": LongType(), "binary": BinaryType()}
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def _columns(text: str, *more: StructField) -> StructType:
    """Return columns of names and types; Spark's own parser of them works in a session alone."""
    pairs = (pair.split() for pair in text.split(", "))
    return StructType([*(StructField(name, _TYPES[kind]) for name, kind in pairs), *more])


#: How a life can end; an earlier one outranks a later one of the same source: a batch that was in flight at a crash may
#: be delivered and have another ending too (records.md#events). `rescued` is the pipeline's own.
ENDINGS = ("delivered", "cancelled", "replaced", "dropped", "rejected", "parked", "rescued")
TOLD_ENDINGS = ENDINGS[:-1]

#: What was asked: `due` as it was given (`at` or `after`), in `headers` all that the record had.
REQUESTS = _columns(
    "topic string, partition int, offset long, stamp_ms long, op string, id string, to string, at string, "
    "after string, key binary, value binary",
    StructField("headers", ArrayType(_HEADER)),
)
#: An event and where it stands on the event topic: its partition is the home partition of its id.
_EVENT = "event string, id string, source string, to string, at_ms long, due_ms long, partition int, offset long"
EVENTS = _columns(f"{_EVENT}, late_ms long, delivered string, reason string, by string")
ACCEPTED = _columns(_EVENT.removeprefix("event string, "))
OUTCOMES = EVENTS
RESCHEDULED = _columns(f"{_EVENT.removeprefix('event string, ')}, by string")
#: What is no life, and what could not be read (event `unreadable`).
OTHERS = _columns(f"{_EVENT}, reason string, by string")

#: How many were so late, for each destination and minute of delivery; `bin` is that of `ledger.lateness`.
LATENESS = _columns("to string, minute_ms long, bin int, count long")
#: How many are pending, for each destination and minute of the due time.
FORECAST = _columns("to string, minute_ms long, count long")
#: What `rescue` has sent again.
RESCUED = _columns("source string, id string, to string, at_ms long, run string")
#: Ids of forwards that their homes had not read when they told of their progress: nothing is judged of these.
FORWARDED = _columns("id string")

#: Tables of events and their columns.
EVENT_TABLES = {"accepted": ACCEPTED, "outcomes": OUTCOMES, "rescheduled": RESCHEDULED, "others": OTHERS}


def table_of(event: str) -> str:
    """Return the table that events of a kind are in."""
    if event in TOLD_ENDINGS:
        return "outcomes"
    return event if event in EVENT_TABLES else "others"
