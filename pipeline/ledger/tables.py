"""The ledger's tables: their columns, and the table of each event. Times are epoch milliseconds."""

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
    """Return the schema of a list of names and types, which Spark's own parser could only read within a session."""
    pairs = (pair.split() for pair in text.split(", "))
    return StructType([*(StructField(name, _TYPES[kind]) for name, kind in pairs), *more])


#: The endings of a life. If a source has several, the first in this list counts: after a crash a message can be
#: delivered and have another ending too (records.md#events). docs/decisions/0026 has the reasons for this order.
#: `rescued` is the pipeline's own.
ENDINGS = ("delivered", "cancelled", "replaced", "dropped", "rejected", "parked", "rescued")
TOLD_ENDINGS = ENDINGS[:-1]

#: Requests: the due time as given (`at` or `after`), and in `headers` all headers of the record.
REQUESTS = _columns(
    "topic string, partition int, offset long, stamp_ms long, op string, id string, to string, at string, "
    "after string, key binary, value binary",
    StructField("headers", ArrayType(_HEADER)),
)
#: An event and its place on the event topic; its partition is the home partition of its id.
_EVENT = "event string, id string, source string, to string, at_ms long, due_ms long, partition int, offset long"
EVENTS = _columns(f"{_EVENT}, late_ms long, delivered string, reason string, by string")
ACCEPTED = _columns(_EVENT.removeprefix("event string, "))
OUTCOMES = EVENTS
RESCHEDULED = _columns(f"{_EVENT.removeprefix('event string, ')}, by string")
#: Events that neither begin, move nor end a life, and records that could not be read (event `unreadable`).
OTHERS = _columns(f"{_EVENT}, reason string, by string")

#: Deliveries by destination, minute of delivery and lateness (`bin`, see `ledger.lateness`).
LATENESS = _columns("to string, minute_ms long, bin int, count long")
#: Pending messages by destination and minute of the due time.
FORECAST = _columns("to string, minute_ms long, count long")
#: Messages that `rescue` has sent again.
RESCUED = _columns("source string, id string, to string, at_ms long, run string")
#: Ids of forwards that the owners of their home partitions had not read by their last report, so none can be lost.
FORWARDED = _columns("id string")

#: Tables of events and their columns.
EVENT_TABLES = {"accepted": ACCEPTED, "outcomes": OUTCOMES, "rescheduled": RESCHEDULED, "others": OTHERS}


def table_of(event: str) -> str:
    """Return the table of an event."""
    if event in TOLD_ENDINGS:
        return "outcomes"
    return event if event in EVENT_TABLES else "others"
