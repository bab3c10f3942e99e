"""Ids that occur more than once: one message has one."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it


def essence(requests: DataFrame) -> DataFrame:
    """Return what is counted of requests, little of each: reason, to, due_ms, and a hash of the id (null: none)."""
    return requests.select("reason", "to", "due_ms", F.when(F.col("id").isNotNull(), F.xxhash64("id")).alias("hash"))


def may_repeat(essences: DataFrame) -> bool:
    """Whether, by their hashes alone, which is cheap, ids may occur twice."""
    return not essences.groupBy("hash").agg(F.count("hash").alias("count")).where("count > 1").isEmpty()


def without_repeats(requests: DataFrame) -> DataFrame:
    """Return the requests; of those with the same id all but one have the reason `duplicate-id`.

    One stays good if all are the same in what is sent. If they differ nobody can say which one is meant: none does.
    """
    good = requests.where("reason is null")
    # Kept until the session ends: what is returned is made of it.
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
