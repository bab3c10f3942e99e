"""The account: the number of accepted messages, and of each ending, by day and destination."""

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.ledger.tables import ENDINGS, OTHERS, OUTCOMES

if TYPE_CHECKING:
    from pipeline.lake import Lake

#: Columns of an account that add up to `accepted`.
PARTS = (*ENDINGS, "missing", "pending")
COUNTS = ("accepted", *PARTS, "duplicates", "refused")


def account(lake: "Lake", lives: DataFrame, lost: DataFrame, since_ms: int = 0) -> DataFrame:
    """Return a row for each day of acceptance (UTC) and destination: day, to, `COUNTS`.

    `lost` are the sources of lost messages. `duplicates` are deliveries after the first. `refused` requests were never
    accepted and have no destination, so their `to` is null.
    """
    missing = lost.select("source", F.lit("missing").alias("lost"))
    end = F.coalesce("ending", "lost", F.lit("pending")).alias("end")
    rows = (
        lives.where("accepted_ms is not null")
        .join(missing, "source", "left")
        .join(duplicates(lake, lives), "source", "left")
        .select(_day("accepted_ms"), "to", end, F.coalesce("again", F.lit(0)).alias("again"))
    )
    counted = [F.count_if(F.col("end") == part).alias(part) for part in PARTS]
    accepted = rows.groupBy("day", "to").agg(
        F.count("*").alias("accepted"), *counted, F.sum("again").alias("duplicates"), F.lit(0).alias("refused")
    )
    return accepted.unionByName(_refused(lake, since_ms)).orderBy("day", F.col("to").asc_nulls_last())


def duplicates(lake: "Lake", lives: DataFrame) -> DataFrame:
    """Return the sources with more than one delivery, and the number of further deliveries of each (`again`)."""
    several = lives.where("several").select("source")
    delivered = lake.read("outcomes", OUTCOMES).where("event = 'delivered'")
    places = delivered.join(F.broadcast(several), "source", "left_semi").groupBy("source")
    return places.agg((F.count_distinct("delivered") - 1).alias("again"))


def _refused(lake: "Lake", since_ms: int) -> DataFrame:
    refused = lake.read("others", OTHERS).where((F.col("event") == "refused") & (F.col("at_ms") >= since_ms))
    by_day = (
        refused.groupBy("source")
        .agg(F.min("at_ms").alias("at_ms"))
        .groupBy(_day("at_ms"))
        .agg(F.count("*").alias("refused"))
    )
    none = [F.lit(0).cast("long").alias(name) for name in COUNTS[:-1]]
    return by_day.select("day", F.lit(None).cast("string").alias("to"), *none, "refused")


def _day(at_ms: str) -> Column:
    return F.to_date(F.timestamp_millis(F.col(at_ms))).alias("day")
