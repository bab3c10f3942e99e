"""Finds ids that occur more than once in a bulk request."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it


def essence(requests: DataFrame) -> DataFrame:
    """Return the columns of requests that are counted: reason, to, due_ms, hash."""
    return requests.select("reason", "to", "due_ms", "hash")


def may_repeat(essences: DataFrame) -> bool:
    """Return whether ids may occur twice, by their hashes, which is cheap. All rows are read, in one job."""
    twice = essences.groupBy("hash").agg(F.count("hash").alias("count")).agg(F.count_if(F.col("count") > 1))
    return bool(twice.head()[0])  # type: ignore[index, unused-ignore]


def without_repeats(requests: DataFrame) -> DataFrame:
    """Reject duplicates: return the requests, where those with a repeated id have the reason `duplicate-id`.

    If all requests with an id have the same content, one stays valid. If their contents differ, all are rejected,
    because the intended one is unknown.
    """
    good = requests.where("reason is null")
    # Kept until the session ends, because the result is computed from it.
    twice = good.groupBy("id").count().where("count > 1").select("id").persist()
    same = Window.partitionBy("id")
    content = F.xxhash64("to", "due_ms", "key", "value", "headers")
    chosen = (F.col("lowest") == F.col("highest")) & (F.col("place") == 1)
    compared = (
        good.join(twice, "id", "left_semi")
        .withColumn("content", content)
        .withColumns({"lowest": F.min("content").over(same), "highest": F.max("content").over(same)})
        .withColumn("place", F.row_number().over(same.orderBy("content")))
        .withColumn("reason", F.when(~chosen, F.lit("duplicate-id")))
        .select(requests.columns)
    )
    alone = requests.join(twice, (requests["id"] == twice["id"]) & requests["reason"].isNull(), "left_anti")
    return alone.unionByName(compared)
