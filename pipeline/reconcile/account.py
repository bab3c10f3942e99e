"""The account: the number of accepted messages, and of each ending, by day, namespace and destination."""

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import schema
from pipeline.ledger.lives import NO_NAMESPACES, namespace_of
from pipeline.ledger.tables import ENDINGS
from punctual.contract.namespaces import Namespaces

if TYPE_CHECKING:
    from pipeline.lake import Lake
    from pipeline.ledger.lives import Lives

#: The columns of an account by which messages are counted.
GROUPS = ("day", "namespace", "to")
#: Columns of an account that add up to `accepted`.
PARTS = (*ENDINGS, "missing", "pending")
COUNTS = ("accepted", *PARTS, "duplicates", "refused")
_DELIVERED = schema(life="life", event="string", delivered="string")
_REFUSED = schema(life="life", event="string", id="string", at_ms="long")


def account(
    ledger: "Lake",
    lives: "Lives",
    lost: DataFrame | None = None,
    since_ms: int = 0,
    namespaces: Namespaces = NO_NAMESPACES,
) -> DataFrame:
    """Return a row for each day of acceptance (UTC), namespace and destination: `GROUPS`, `COUNTS`.

    Args:
        ledger: the rows of `lives`.
        lives: the lives (`ledger.lives`).
        lost: the lives of lost messages, if there are any.
        since_ms: requests that were refused earlier are left out.
        namespaces: the namespaces of `lives`; without one, `namespace` is "".

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
    rows = begun.select(_day("accepted_ms"), "namespace", "to", end, more.alias("again"))
    counted = [F.count_if(F.col("end") == part).alias(part) for part in PARTS]
    accepted = rows.groupBy(*GROUPS).agg(
        F.count("*").alias("accepted"), *counted, F.sum("again").alias("duplicates"), F.lit(0).alias("refused")
    )
    refused = _refused(ledger, since_ms, namespaces)
    return accepted.unionByName(refused).orderBy("day", "namespace", F.col("to").asc_nulls_last())


def duplicates(ledger: "Lake", lives: DataFrame) -> DataFrame:
    """Return the lives with more than one delivery, and the number of further deliveries of each (`again`)."""
    several = lives.where("several").select("life")
    delivered = ledger.read("outcomes", _DELIVERED).where("event = 'delivered'")
    places = delivered.join(F.broadcast(several), "life", "left_semi").groupBy("life")
    return places.agg((F.count_distinct("delivered") - 1).alias("again"))


def _refused(ledger: "Lake", since_ms: int, namespaces: Namespaces) -> DataFrame:
    refused = ledger.read("others", _REFUSED).where((F.col("event") == "refused") & (F.col("at_ms") >= since_ms))
    named = {name: name for name in namespaces.names}
    namespace = F.coalesce(namespace_of(F.col("id"), namespaces, named), F.lit("")).alias("namespace")
    first = refused.groupBy("life", namespace).agg(F.min("at_ms").alias("at_ms"))
    by_day = first.groupBy(_day("at_ms"), "namespace").agg(F.count("*").alias("refused"))
    none = [F.lit(0).cast("long").alias(name) for name in COUNTS[:-1]]
    return by_day.select("day", "namespace", F.lit(None).cast("string").alias("to"), *none, "refused")


def _day(at_ms: str) -> Column:
    return F.to_date(F.timestamp_millis(F.col(at_ms))).alias("day")
