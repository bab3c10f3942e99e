"""Lives of messages, from `accepted` to one ending. The source identifies a life, so repeated events do not matter."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import schema, source_text
from pipeline.ledger.progress import Snapshot, looked_up
from pipeline.ledger.tables import ENDINGS
from pipeline.persisted import persisted
from punctual.contract.namespaces import Namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.lake import Lake

MINUTE_MS = 60_000
NO_NAMESPACES = Namespaces()
#: The condition on a life that it has begun, and not ended.
UNENDED = "accepted_ms is not null and ending is null"
#: The condition on a life that it has ended, and not begun.
STRANGE = "accepted_ms is null and ending <> 'rescued'"
#: The condition on a life that it has begun and ended, with one delivery at most.
CLOSED = "accepted_ms is not null and ending is not null and not several"
_EVENT = schema(kind="string", life="life", id="string", to="string", at_ms="long", event="string", delivered="string")
_DECIDED = schema(life="life", event="string", offset="long")
_ACCEPTED = schema(life="life", offset="long", id="string", to="string", due_ms="long", partition="int", at_ms="long")
_MOVED = schema(life="life", offset="long", due_ms="long", by="string", at_ms="long")


def lives(ledger: "Lake", since_ms: int = 0, namespaces: Namespaces = NO_NAMESPACES) -> DataFrame:
    """Return a row for each life: life, to, accepted_ms (null if never accepted), ending, several, namespace.

    `ending` is null while the message is pending; `several` is true if it was delivered more than once. With
    `since_ms`, lives that began earlier may have their ending alone.

    Only numbers are aggregated, because Spark would sort rows with text instead of hashing them, at half the speed.
    """
    events = ledger.read(("accepted", "outcomes", "rescued"), _EVENT)
    begins, rescued = F.col("kind") == "accepted", F.col("kind") == "rescued"
    bit = F.when(rescued, F.lit(1 << ENDINGS.index("rescued"))).otherwise(0)
    for number, name in enumerate(ENDINGS):
        bit = F.when(F.col("event") == name, F.lit(1 << number)).otherwise(bit)
    since = F.when(begins, since_ms).when(rescued, 0).otherwise(since_ms - MINUTE_MS)  # another worker's clock
    numbers = {name: number for number, name in enumerate(sorted(namespaces.names))}
    rows = events.where(F.col("at_ms") >= since).select(
        "life",
        "to",
        F.when(begins, F.col("at_ms")).alias("accepted_ms"),
        bit.alias("bit"),
        _place(F.col("delivered")),
        namespace_of(F.col("id"), namespaces, numbers).cast("int").alias("namespace"),
    )
    grouped = rows.groupBy("life", "to").agg(
        F.min("accepted_ms").alias("accepted_ms"),
        F.bit_or("bit").alias("bits"),
        (F.min("place") != F.max("place")).alias("several"),
        F.max("namespace").alias("namespace"),
    )
    ending = F.lit(None).cast("string")
    for number in reversed(range(len(ENDINGS))):
        ending = F.when(F.col("bits").bitwiseAND(1 << number) != 0, F.lit(ENDINGS[number])).otherwise(ending)
    several = F.coalesce("several", F.lit(False))  # noqa: FBT003 - a column
    namespace = F.lit("")
    for name, number in numbers.items():
        namespace = F.when(F.col("namespace") == number, F.lit(name)).otherwise(namespace)
    return grouped.select(
        "life", "to", "accepted_ms", ending.alias("ending"), several.alias("several"), namespace.alias("namespace")
    )


def namespace_of(id_: Column, namespaces: Namespaces, values: "Mapping[str, int | str]") -> Column:
    """Return the value of the namespace of an id, a full name; null if it has none."""
    value = F.lit(None)
    for topic, name in namespaces.inputs.items():
        automatic = id_.rlike(f"^{re.escape(topic)}-[0-9]{{1,19}}-[0-9]{{1,19}}(@[0-9]{{1,19}})?$")
        value = F.when(automatic, F.lit(values[name])).otherwise(value)
    for name in namespaces.names:
        value = F.when(id_.startswith(f"{name}/"), F.lit(values[name])).otherwise(value)
    return value


@dataclass(frozen=True)
class Lives:
    """The lives of a ledger, and how many are special.

    Attributes:
        every: the lives (`lives`).
        real: the lives without those that a worker began in an uncommitted step (records.md#events).
        unended: the number of lives without an ending, with those that began in an uncommitted step.
        closed: the number of lives that have begun and ended, with one delivery at most.
        several: the number of lives with several deliveries.
        strangers: the number of lives with an ending but no beginning.
    """

    every: DataFrame
    real: DataFrame
    unended: int
    closed: int
    several: int
    strangers: int


@contextmanager
def kept_lives(ledger: "Lake", since_ms: int = 0, namespaces: Namespaces = NO_NAMESPACES) -> Iterator[Lives]:
    """Return the lives for a block, computed once."""
    with persisted(lives(ledger, since_ms, namespaces)) as every:
        # One job counts all that most ledgers have none of, so that further jobs need not look for it.
        conditions = {
            "unended": UNENDED,
            "closed": CLOSED,
            "of_series": f"{UNENDED} and life.occurrence is not null",
            "several": "several",
            "strangers": STRANGE,
        }
        [counts] = every.agg(*(F.count_if(F.expr(each)).alias(name) for name, each in conditions.items())).collect()
        real = every
        if counts["of_series"]:
            real = real.join(_after_the_last(every), "life", "left_anti")
        if counts["unended"] and (decided := _decided_otherwise(ledger, every)) is not None:
            real = real.join(decided, "life", "left_anti")
        with persisted(real):
            yield Lives(every, real, **{name: counts[name] for name in ("unended", "closed", "several", "strangers")})


def _after_the_last(living: DataFrame) -> DataFrame:
    """Return the lives of pending occurrences that follow the occurrence with which their series ended."""
    of_series = living.where(UNENDED).where("life.occurrence is not null").select("life")
    before = of_series.select("life", before_of(F.col("life")).alias("before"))
    over = living.where(F.col("ending").isin("cancelled", "replaced")).select(F.col("life").alias("before"))
    return before.join(over, "before", "left_semi").select("life")


def before_of(life: Column) -> Column:
    """Return the life of the previous occurrence of a series; the first one has no number."""
    number = F.nullif(life["occurrence"] - 1, F.lit(1))
    return life.withField("occurrence", number)


def _decided_otherwise(ledger: "Lake", living: DataFrame) -> DataFrame | None:
    """Return the lives of pending requests that were refused, or recognised as duplicates, after all.

    After a crash, the refusal has a higher offset than `accepted`. With a lower offset, it is either the decision of
    the partition's owner, next to a zombie that accepted the request, or it comes from an uncommitted step itself. The
    message stays pending until its worker has passed its due time, which decides between the two.
    """
    decisions = ledger.read("others", _DECIDED).where(F.col("event").isin("refused", "duplicate"))
    unended = decisions.join(living.where(UNENDED), "life", "left_semi")
    decided = unended.groupBy("life").agg(F.max("offset").alias("decided"))
    if decided.isEmpty():
        return None
    again = ledger.read("accepted", _ACCEPTED).join(F.broadcast(decided), "life", "left_semi")
    began = again.groupBy("life").agg(F.max("offset").alias("began"))
    both = decided.join(began, "life").join(pending(ledger, unended=decided.select("life")), "life")
    reports = Snapshot.of(ledger.head.notes.get("snapshot")).reports
    fired_to = {number: last.fired_to for number, last in reports.items()}
    dealt_with = F.col("due_ms") + MINUTE_MS < looked_up(fired_to, F.col("partition"))
    return both.where((F.col("decided") > F.col("began")) | dealt_with).select("life")


def created_again(lake: "Lake") -> list[str]:
    """Return the inputs that were created again: sources on them had offsets beyond the end of the topic.

    Such sources cannot be matched to the topic's present records (DELAY_ACCEPT_LOSS).
    """
    topics = set(lake.head.notes.get("renumbered", ()))
    ends: dict[str, int] = lake.head.notes.get("input_ends", {})
    if ends:
        beyond = " or ".join(f"(source_topic = '{topic}' and source_offset >= {end})" for topic, end in ends.items())
        rows = lake.read("accepted", schema(source_topic="string"), beyond, whole=True).distinct().collect()
        topics |= {row["source_topic"] for row in rows}
    return sorted(topics)


def pending(ledger: "Lake", since_ms: int = 0, unended: DataFrame | None = None) -> DataFrame:
    """Return the messages that are pending by the ledger: id, life, source, to, due_ms, partition, accepted_ms, by.

    `due_ms` is the last known due time, and `by` the source of the command that set it (null for the request itself).
    `partition` is the home partition of the id. With `since_ms`, messages accepted earlier are left out. `unended` are
    the lives without an ending, if the caller has them.
    """
    first = F.min(F.struct("offset", "id", "to", "due_ms", "partition", "at_ms")).alias("first")
    later = F.col("at_ms") >= since_ms - MINUTE_MS  # another worker's clock
    waits = lives(ledger, since_ms).where(UNENDED).select("life") if unended is None else unended
    began = ledger.read("accepted", _ACCEPTED).where(F.col("at_ms") >= since_ms)
    waiting = began.join(waits, "life", "left_semi").groupBy("life").agg(first)
    moved = (
        ledger.read("rescheduled", _MOVED)
        .where(later)
        .groupBy("life")
        .agg(F.max(F.struct("offset", "due_ms", "by")).alias("last"))
    )
    return waiting.join(moved, "life", "left").select(
        F.col("first.id").alias("id"),
        "life",
        source_text(F.col("life")).alias("source"),
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
