"""Ids that occur more than once: one message has one."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it


def without_repeats(requests: DataFrame) -> DataFrame:
    """Give the requests; of those with the same id all but one have the reason `duplicate-id`.

    One stays good if all are the same in what is sent. If they differ nobody can say which one is meant: none does.

    Spark looks at all ids now, and compares the requests themselves only where ids occur twice.
    """
    good = requests.where("reason is null")
    twice = good.groupBy("id").count().where("count > 1").select("id").persist()
    if twice.isEmpty():
        twice.unpersist()
        return requests
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
