"""Promotions: which parked messages are sent back to the workers, and with which headers."""

from dataclasses import asdict, dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.headers import joined, moment
from pipeline.kafka import Offsets
from punctual.contract import headers as names

#: A promoted message that no worker has touched after this time is sent again: the worker was down, or is far behind.
AGAIN_MS = 300_000


@dataclass(frozen=True)
class Promotion:
    """A promotion that is done.

    Attributes:
        until_ms: messages due before this time (epoch ms) were sent.
        again_ms: when (epoch ms) all of them were last sent, including those sent before.
        upto: the offsets of the cold topic up to which records were known.
    """

    until_ms: int = 0
    again_ms: int = 0
    upto: Offsets = field(default_factory=dict)

    @classmethod
    def of(cls, note: "dict[str, object] | None") -> "Promotion":
        """Return the promotion in a `note`; an empty one for None."""
        if not note:
            return cls()
        upto = {int(number): int(str(at)) for number, at in dict(note["upto"]).items()}  # type: ignore[call-overload]
        return cls(int(str(note["until_ms"])), int(str(note["again_ms"])), upto)

    def note(self) -> dict[str, object]:
        """Return the promotion as a value for JSON."""
        return asdict(self)

    def next(self, now_ms: int, until_ms: int, ends: Offsets) -> "Promotion":
        """Return the following promotion, at `now_ms` and with the cold topic known up to `ends`."""
        again = now_ms if now_ms - self.again_ms >= AGAIN_MS else self.again_ms
        return Promotion(max(until_ms, self.until_ms), again, ends)

    def due(self) -> Column:
        """Return the condition that a message is due before `until_ms`."""
        return F.col("due_ms") < self.until_ms

    def fresh(self, before: "Promotion") -> Column:
        """Return the condition that the promotion `before` has not sent a message; true when all are sent again."""
        if self.again_ms != before.again_ms:
            return F.lit(True)  # noqa: FBT003 - a column
        late = F.lit(True)  # noqa: FBT003 - a column
        if before.upto:
            ends = F.create_map(*(F.lit(each) for pair in before.upto.items() for each in pair))
            late = F.col("offset") >= F.coalesce(ends[F.col("partition")], F.lit(0))
        return (F.col("due_ms") >= before.until_ms) | late

    def fresh_sql(self, before: "Promotion") -> str:
        """Return the condition `fresh` as SQL over the columns of the table."""
        if self.again_ms != before.again_ms or not before.upto:
            return "true"
        ends = " ".join(f"WHEN {number} THEN {end}" for number, end in before.upto.items())
        late = f'"offset" >= CASE "partition" {ends} ELSE 0 END'
        return f"due >= to_timestamp_micros({before.until_ms * 1_000}) OR {late}"


def requests(messages: DataFrame, snapshot_ms: int) -> DataFrame:
    """Return requests that send parked messages (`state.MESSAGES`) back: columns key, value, headers, partition.

    They are sorted by due time, and each goes to the home partition of its id. Their headers let the worker recognise
    them: the order among the records of the id, and the time up to which touches were known.
    """
    own_headers = {
        names.ID: F.col("id"),
        names.AT: moment(F.col("due_ms")),
        names.SOURCE: F.col("source"),
        names.PARKED: F.concat_ws(",", F.col("order_ms"), F.lit(snapshot_ms)),
    }
    return (
        messages.repartition("partition")
        .sortWithinPartitions("partition", "due_ms", "offset")
        .select("key", "value", joined(own_headers, F.col("headers")).alias("headers"), "partition")
    )
