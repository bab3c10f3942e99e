"""The kinds of rows of the ledger: their columns, and the kind of each event. Times are epoch milliseconds."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StructType

from pipeline.columns import schema

#: The endings of a life. If a source has several, the first in this list counts: after a crash a message can be
#: delivered and have another ending too (records.md#events). docs/decisions/0026 has the reasons for this order.
#: `rescued` is the pipeline's own.
ENDINGS = ("delivered", "cancelled", "replaced", "dropped", "rejected", "parked", "rescued")
EVENT_ENDINGS = ENDINGS[:-1]

_PLACE = {"partition": "int", "offset": "long"}
#: Requests: the due time as given (`at` or `after`), and in `headers` all headers of the record.
REQUESTS = schema(
    topic="string",
    **_PLACE,
    stamp_ms="long",
    **dict.fromkeys(("op", "id", "to", "at", "after"), "string"),
    key="binary",
    value="binary",
    headers="headers",
)
#: Requests as reconciliations read them.
SCHEDULES = schema(
    topic="string", **_PLACE, stamp_ms="long", **dict.fromkeys(("op", "id", "to", "at", "after"), "string")
)
#: An event and its place on the event topic; its partition is the home partition of its id.
_EVENT = {"id": "string", "source": "string", "to": "string", "at_ms": "long", "due_ms": "long", **_PLACE}
EVENTS = schema(event="string", **_EVENT, late_ms="long", delivered="string", reason="string", by="string")
ACCEPTED = schema(**_EVENT)
OUTCOMES = EVENTS
RESCHEDULED = schema(**_EVENT, by="string")
#: Events that neither begin, move nor end a life, and records that could not be read (event `unreadable`).
OTHERS = schema(event="string", **_EVENT, reason="string", by="string")
#: Messages that `rescue` has sent again.
RESCUED = schema(source="string", id="string", to="string", at_ms="long", run="string")
#: Ids of forwards that the owners of their home partitions had not read by the last report before the `run`.
FORWARDED = schema(id="string", run="string")

#: The kinds of events and their columns.
EVENT_TABLES: dict[str, StructType] = {
    "accepted": ACCEPTED,
    "outcomes": OUTCOMES,
    "rescheduled": RESCHEDULED,
    "others": OTHERS,
}


def table_of(event: Column) -> Column:
    """Return the kind of an event's row."""
    own = F.when(event.isin("accepted", "rescheduled"), event)
    return own.when(event.isin(*EVENT_ENDINGS), F.lit("outcomes")).otherwise(F.lit("others"))
