"""Lives of messages, from `accepted` to one ending. The source identifies a life, so repeated events do not matter."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import schema
from pipeline.ledger.progress import Snapshot, looked_up
from pipeline.ledger.records import request_of
from pipeline.ledger.tables import ACCEPTED, ENDINGS, OTHERS, OUTCOMES, RESCHEDULED, RESCUED
from pipeline.persisted import persisted

if TYPE_CHECKING:
    from pipeline.lake import Lake

MINUTE_MS = 60_000
#: The condition on a life that it has begun, and not ended.
UNENDED = "accepted_ms is not null and ending is null"


def lives(lake: "Lake", since_ms: int = 0) -> DataFrame:
    """Return a row for each life: source, to, accepted_ms (null if never accepted), ending, several.

    `ending` is null while the message is pending; `several` is true if it was delivered more than once. With
    `since_ms`, lives that began earlier may have their ending alone.

    Only numbers are aggregated, because Spark would sort rows with text instead of hashing them, at half the speed.
    """
    began = lake.read("accepted", ACCEPTED).where(F.col("at_ms") >= since_ms)
    ended = lake.read("outcomes", OUTCOMES).where(F.col("at_ms") >= since_ms - MINUTE_MS)  # another worker's clock
    bit = F.lit(0)
    for number, name in enumerate(ENDINGS):
        bit = F.when(F.col("event") == name, F.lit(1 << number)).otherwise(bit)
    rows = (
        began.select("source", "to", F.col("at_ms").alias("accepted_ms"), F.lit(0).alias("bit"), _place(F.lit(None)))
        .unionByName(ended.select("source", "to", _none("accepted_ms"), bit.alias("bit"), _place(F.col("delivered"))))
        .unionByName(
            lake.read("rescued", RESCUED).select(
                "source", "to", _none("accepted_ms"), F.lit(1 << ENDINGS.index("rescued")).alias("bit"), _none("place")
            )
        )
    )
    grouped = rows.groupBy("source", "to").agg(
        F.min("accepted_ms").alias("accepted_ms"),
        F.bit_or("bit").alias("bits"),
        (F.min("place") != F.max("place")).alias("several"),
    )
    ending = F.lit(None).cast("string")
    for number in reversed(range(len(ENDINGS))):
        ending = F.when(F.col("bits").bitwiseAND(1 << number) != 0, F.lit(ENDINGS[number])).otherwise(ending)
    several = F.coalesce("several", F.lit(False))  # noqa: FBT003 - a column
    return grouped.select("source", "to", "accepted_ms", ending.alias("ending"), several.alias("several"))


def that_were(lake: "Lake", living: DataFrame) -> DataFrame:
    """Return lives without those that an uncommitted step of a worker had begun, which never were (records.md#events).

    `living` is read several times.
    """
    for never in (_after_the_last(living), _decided_otherwise(lake, living)):
        if never is not None:
            living = living.join(never, "source", "left_anti")
    return living


def _after_the_last(living: DataFrame) -> DataFrame | None:
    """Return the sources of pending occurrences that follow the occurrence with which their series ended."""
    of_series = living.where(UNENDED).where(F.col("source").contains("@")).select("source")
    if of_series.isEmpty():
        return None
    over = living.where(F.col("ending").isin("cancelled", "replaced"))
    number = F.coalesce(F.regexp_extract("source", "@([0-9]+)$", 1).try_cast("int"), F.lit(1))
    after = over.select(F.concat_ws("@", request_of(F.col("source")), number + 1).alias("source"))
    return of_series.join(after, "source", "left_semi")


def _decided_otherwise(lake: "Lake", living: DataFrame) -> DataFrame | None:
    """Return the sources of pending requests that were refused, or recognised as duplicates, after all.

    After a crash, the refusal has a higher offset than `accepted`. With a lower offset, it is either the decision of
    the partition's owner, next to a zombie that accepted the request, or it comes from an uncommitted step itself. The
    message stays pending until its worker has passed its due time, which decides between the two.
    """
    decisions = lake.read("others", OTHERS).where(F.col("event").isin("refused", "duplicate"))
    unended = decisions.join(living.where(UNENDED), "source", "left_semi")
    decided = unended.groupBy("source").agg(F.max("offset").alias("decided"))
    if decided.isEmpty():
        return None
    again = lake.read("accepted", ACCEPTED).join(F.broadcast(decided), "source", "left_semi")
    began = again.groupBy("source").agg(F.max("offset").alias("began"))
    both = decided.join(began, "source").join(pending(lake, unended=decided.select("source")), "source")
    fired_to = {number: last.fired_to for number, last in Snapshot.of(lake.head.notes.get("snapshot")).reports.items()}
    dealt_with = F.col("due_ms") + MINUTE_MS < looked_up(fired_to, F.col("partition"))
    return both.where((F.col("decided") > F.col("began")) | dealt_with).select("source")


def created_again(lake: "Lake") -> list[str]:
    """Return the inputs that were created again: sources on them had offsets beyond the end of the topic.

    Such sources cannot be matched to the topic's present records (DELAY_ACCEPT_LOSS).
    """
    topics = set(lake.head.notes.get("renumbered", ()))
    ends: dict[str, int] = lake.head.notes.get("input_ends", {})
    if ends:
        beyond = " or ".join(f"(source_topic = '{topic}' and source_offset >= {end})" for topic, end in ends.items())
        rows = lake.read("accepted", schema(source_topic="string"), beyond).distinct().collect()
        topics |= {row["source_topic"] for row in rows}
    return sorted(topics)


@contextmanager
def kept_lives(lake: "Lake", since_ms: int = 0) -> Iterator[DataFrame]:
    """Return the real lives (`that_were`) for a block, computed once."""
    with persisted(lives(lake, since_ms)) as all_lives, persisted(that_were(lake, all_lives)) as living:
        yield living


def pending(lake: "Lake", since_ms: int = 0, unended: DataFrame | None = None) -> DataFrame:
    """Return the messages that are pending by the ledger: id, source, to, due_ms, partition, accepted_ms, by.

    `due_ms` is the last known due time, and `by` the source of the command that set it (null for the request itself).
    `partition` is the home partition of the id. With `since_ms`, messages accepted earlier are left out. `unended` are
    the sources of lives without an ending, if the caller has them.
    """
    first = F.min(F.struct("offset", "id", "to", "due_ms", "partition", "at_ms")).alias("first")
    later = F.col("at_ms") >= since_ms - MINUTE_MS  # another worker's clock
    sources = lives(lake, since_ms).where(UNENDED).select("source") if unended is None else unended
    began = lake.read("accepted", ACCEPTED).where(F.col("at_ms") >= since_ms)
    waiting = began.join(sources, "source", "left_semi").groupBy("source").agg(first)
    moved = (
        lake.read("rescheduled", RESCHEDULED)
        .where(later)
        .groupBy("source")
        .agg(F.max(F.struct("offset", "due_ms", "by")).alias("last"))
    )
    return waiting.join(moved, "source", "left").select(
        F.col("first.id").alias("id"),
        "source",
        F.col("first.to").alias("to"),
        F.coalesce("last.due_ms", "first.due_ms").alias("due_ms"),
        F.col("first.partition").alias("partition"),
        F.col("first.at_ms").alias("accepted_ms"),
        F.col("last.by").alias("by"),
    )


def minute(at_ms: Column) -> Column:
    """Return the column minute_ms, the beginning of the minute of a time."""
    return (at_ms - F.pmod(at_ms, F.lit(MINUTE_MS))).alias("minute_ms")


def _place(where: Column) -> Column:
    """Return the column place, a hash that distinguishes places of delivery."""
    return F.when(where.isNotNull(), F.xxhash64(where)).alias("place")


def _none(name: str) -> Column:
    return F.lit(None).cast("long").alias(name)
