"""The account: the number of accepted messages, and of each ending, by day and destination."""

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import schema
from pipeline.ledger.tables import ENDINGS

if TYPE_CHECKING:
    from pipeline.lake import Lake
    from pipeline.ledger.lives import Lives

#: Columns of an account that add up to `accepted`.
PARTS = (*ENDINGS, "missing", "pending")
COUNTS = ("accepted", *PARTS, "duplicates", "refused")
_DELIVERED = schema(life="life", event="string", delivered="string")
_REFUSED = schema(life="life", event="string", at_ms="long")


def account(
    ledger: "Lake",
    lives: "Lives",
    lost: DataFrame | None = None,
    since_ms: int = 0,
) -> DataFrame:
    """Return a row for each day of acceptance (UTC) and destination: day, to, `COUNTS`.

    Args:
        ledger: the rows of `lives`.
        lives: the lives (`ledger.lives`).
        lost: the lives of lost messages, if there are any.
        since_ms: requests that were refused earlier are left out.

    `duplicates` are deliveries after the first. `refused` requests were never accepted and have no destination, so
    their `to` is null.
    """
    begun = lives.real.where("accepted_ms is not null")
    missing, more = F.lit(None), F.lit(0)
    if lost is not None:
        begun, missing = begun.join(lost.select("life", F.lit("missing").alias("lost")), "life", "left"), F.col("lost")
    if lives.several:
        begun, more = begun.join(duplicates(ledger, lives.real), "life", "left"), F.coalesce("again", more)
    end = F.coalesce("ending", missing, F.lit("pending")).alias("end")
    rows = begun.select(_day("accepted_ms"), "to", end, more.alias("again"))
    counted = [F.count_if(F.col("end") == part).alias(part) for part in PARTS]
    accepted = rows.groupBy("day", "to").agg(
        F.count("*").alias("accepted"), *counted, F.sum("again").alias("duplicates"), F.lit(0).alias("refused")
    )
    return accepted.unionByName(_refused(ledger, since_ms)).orderBy("day", F.col("to").asc_nulls_last())


def duplicates(ledger: "Lake", lives: DataFrame) -> DataFrame:
    """Return the lives with more than one delivery, and the number of further deliveries of each (`again`)."""
    several = lives.where("several").select("life")
    delivered = ledger.read("outcomes", _DELIVERED).where("event = 'delivered'")
    places = delivered.join(F.broadcast(several), "life", "left_semi").groupBy("life")
    return places.agg((F.count_distinct("delivered") - 1).alias("again"))


def _refused(ledger: "Lake", since_ms: int) -> DataFrame:
    refused = ledger.read("others", _REFUSED).where((F.col("event") == "refused") & (F.col("at_ms") >= since_ms))
    first = refused.groupBy("life").agg(F.min("at_ms").alias("at_ms")).select("at_ms")
    by_day = first.groupBy(_day("at_ms")).agg(F.count("*").alias("refused"))
    none = [F.lit(0).cast("long").alias(name) for name in COUNTS[:-1]]
    return by_day.select("day", F.lit(None).cast("string").alias("to"), *none, "refused")


def _day(at_ms: str) -> Column:
    return F.to_date(F.timestamp_millis(F.col(at_ms))).alias("day")
