"""Records of the cold topic as rows: parked messages, and touches of ids that may be parked."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import schema
from pipeline.headers import header, joined, named, number, text, users
from punctual.contract import headers as names

#: The columns of a parsed record.
RECORDS = schema(
    id="string",
    partition="int",
    offset="long",
    op="string",
    due_ms="long",
    if_due_ms="long",
    order_ms="long",
    source="string",
    epoch="long",
    to="string",
    key="binary",
    value="binary",
    headers="headers",
)
#: Headers that a parked message keeps; the promotion adds its own.
_POLICIES = (
    names.TO,
    names.TO_PARTITION,
    names.TO_CLUSTER,
    names.MAX_LATE,
    names.IF_LATE,
    names.DEDUPE,
    names.ON_FAILURE,
    names.ATTEMPT,
    names.NO_LATER,
    names.FIRST,
)
#: Commands whose effect depends on the parked message.
CONDITIONAL = ("reschedule", "deliver-now")


def parsed(records: DataFrame) -> DataFrame:
    """Return a row for each record of `Kafka.read`; a record without an id is not a worker's, and is left out.

    Columns: id, partition, offset, op (`park`, `void`, `cancel`, `reschedule`, `deliver-now`), due_ms (of messages and
    commands), if_due_ms, order_ms and source (the order among the records of an id), epoch (of the writer), to, key,
    value, headers (the user's, and the policies that stay with the message).
    """
    op, to = F.coalesce(text(names.OP), F.lit("schedule")), text(names.TO)
    kind = F.when(op != "schedule", op).when(to.isNotNull(), F.lit("park")).otherwise(F.lit("void"))
    order = F.coalesce(F.substring_index(text(names.PARKED), ",", 1).try_cast("long"), F.col("stamp_ms"))
    return (
        named(records)
        .select(
            text(names.ID).alias("id"),
            "partition",
            "offset",
            kind.alias("op"),
            number(names.AT).alias("due_ms"),
            number(names.IF_DUE).alias("if_due_ms"),
            order.alias("order_ms"),
            text(names.SOURCE).alias("source"),
            F.coalesce(number(names.EPOCH), F.lit(0)).alias("epoch"),
            to.alias("to"),
            "key",
            "value",
            joined({name: header(name) for name in _POLICIES}, users()).alias("headers"),
        )
        .where("id is not null")
    )
