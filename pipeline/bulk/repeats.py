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
    valid = requests.where("reason is null")
    # Kept until the session ends, because the result is computed from it.
    repeated_ids = valid.groupBy("id").count().where("count > 1").select("id").persist()
    same_id = Window.partitionBy("id")
    content = F.xxhash64("to", "due_ms", "key", "value", "headers")
    is_first_copy = (F.col("lowest") == F.col("highest")) & (F.col("place") == 1)
    compared = (
        valid.join(repeated_ids, "id", "left_semi")
        .withColumn("content", content)
        .withColumns({"lowest": F.min("content").over(same_id), "highest": F.max("content").over(same_id)})
        .withColumn("place", F.row_number().over(same_id.orderBy("content")))
        .withColumn("reason", F.when(~is_first_copy, F.lit("duplicate-id")))
        .select(requests.columns)
    )
    alone = requests.join(
        repeated_ids, (requests["id"] == repeated_ids["id"]) & requests["reason"].isNull(), "left_anti"
    )
    return alone.unionByName(compared)
