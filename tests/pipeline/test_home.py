"""Spark computes the same home partitions as every other client."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.home import home
from punctual.contract.home import home_partition

INPUTS = ("delay-requests", "a.b")


def test_homes_are_those_of_the_contract(spark: SparkSession) -> None:
    ids = ["", "x", "é-1-2", "job:1", *(f"{'long' * n}" for n in range(1, 9))]
    for topic in (*INPUTS, "axb", "x-a.b", "delay-requests-a.b"):
        ids += [
            f"{topic}-{rest}" for rest in ("3-1", "4-1", "0003-1", "99999999999-1", "3-1\n", "3-", "-1", "+3-1", "³-1")
        ]

    found = spark.createDataFrame([(each,) for each in ids], "id string").select("id", home(F.col("id"), INPUTS, 4))

    assert dict(map(tuple, found.collect())) == {each: home_partition(each, INPUTS, 4) for each in ids}
