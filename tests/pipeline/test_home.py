"""The home partition of an id is the same in Spark as in every other client."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.home import home
from punctual.contract.home import home_partition

INPUTS = ("delay-requests", "a.b")


def test_spark_computes_the_home_partitions_of_the_contract(spark: SparkSession) -> None:
    ids = ["", "x", "é-1-2", "job:1", *(f"{'long' * n}" for n in range(1, 9))]
    for topic in (*INPUTS, "axb", "x-a.b", "delay-requests-a.b"):
        ids += [
            f"{topic}-{rest}" for rest in ("3-1", "4-1", "0003-1", "99999999999-1", "3-1\n", "3-", "-1", "+3-1", "³-1")
        ]

    homes = spark.createDataFrame([(id_,) for id_ in ids], "id string").select("id", home(F.col("id"), INPUTS, 4))

    assert dict(map(tuple, homes.collect())) == {id_: home_partition(id_, INPUTS, 4) for id_ in ids}
