"""Times in headers are read as they were written: early milliseconds do not look like seconds."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.headers import moment
from punctual.contract.times import parse_time, write_time

TIMES = [0, 99_999_999, 100_000_000, 345_600_000, 99_999_999_999, 100_000_000_000, 1_795_000_000_000]


def test_spark_writes_times_of_any_year_as_the_contract_does(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(time_ms,) for time_ms in TIMES], "due_ms long").coalesce(1)

    texts = [row.text for row in frame.select(moment(F.col("due_ms")).alias("text")).collect()]

    assert texts == list(map(write_time, TIMES))
    assert list(map(parse_time, texts)) == TIMES
