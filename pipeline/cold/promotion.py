"""What is sent back to the worker, and how it is marked."""

from dataclasses import asdict, dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.headers import joined, moment
from pipeline.kafka import Offsets
from punctual.contract import headers as names

#: What was sent and has left no touch after so long is sent again: the worker was down, or too far behind.
AGAIN_MS = 300_000


@dataclass(frozen=True)
class Promotion:
    """One that is over: what is due before `until_ms` among records before `upto` was sent; all of it at `again_ms`.

    Times in epoch milliseconds.
    """

    until_ms: int = 0
    again_ms: int = 0
    upto: Offsets = field(default_factory=dict)

    @classmethod
    def of(cls, note: "dict[str, object] | None") -> "Promotion":
        """Read what `note` gave."""
        if not note:
            return cls()
        upto = {int(number): int(str(at)) for number, at in dict(note["upto"]).items()}  # type: ignore[call-overload]
        return cls(int(str(note["until_ms"])), int(str(note["again_ms"])), upto)

    def note(self) -> dict[str, object]:
        """Return it as JSON knows it."""
        return asdict(self)

    def next(self, now_ms: int, until_ms: int, ends: Offsets) -> "Promotion":
        """Return the one that follows at `now_ms`, which knows the cold topic up to `ends`."""
        again = now_ms if now_ms - self.again_ms >= AGAIN_MS else self.again_ms
        return Promotion(max(until_ms, self.until_ms), again, ends)

    def due(self) -> Column:
        """Return the condition on messages that it looks at."""
        return F.col("due_ms") < self.until_ms

    def fresh(self, before: "Promotion") -> Column:
        """Return the condition on those that the one `before` has not sent; all, when it is time to send again."""
        if self.again_ms != before.again_ms:
            return F.lit(True)  # noqa: FBT003 - a column
        seen = F.create_map(*(F.lit(each) for pair in before.upto.items() for each in pair)) if before.upto else None
        late = F.lit(True) if seen is None else F.col("offset") >= F.coalesce(seen[F.col("partition")], F.lit(0))  # noqa: FBT003
        return (F.col("due_ms") >= before.until_ms) | late

    def is_fresh(self, before: "Promotion", *, partition: int, offset: int, due_ms: int, **_: object) -> bool:
        """Return whether it holds for one."""
        again = self.again_ms != before.again_ms
        return again or due_ms >= before.until_ms or offset >= before.upto.get(partition, 0)


def requests(messages: DataFrame, snapshot_ms: int) -> DataFrame:
    """Return the requests that bring parked messages (`state.MESSAGES`) back: columns key, value, headers, partition.

    They are in the order in which they are due, each in the home partition of its id, and say what the worker needs to
    know them again: their order among the records of their id, and up to when touches were known.
    """
    own = {
        names.ID: F.col("id"),
        names.AT: moment(F.col("due_ms")),
        names.SOURCE: F.col("source"),
        names.PARKED: F.concat_ws(",", F.col("order_ms"), F.lit(snapshot_ms)),
    }
    return (
        messages.repartition("partition")
        .sortWithinPartitions("partition", "due_ms", "offset")
        .select("key", "value", joined(own, F.col("headers")).alias("headers"), "partition")
    )
