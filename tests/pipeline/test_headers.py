"""Times are written so that they are read unchanged: old milliseconds do not look like seconds."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.headers import moment
from punctual.contract.times import parse_time, write_time

TIMES = [0, 99_999_999, 100_000_000, 345_600_000, 99_999_999_999, 100_000_000_000, 1_795_000_000_000]


def test_times_of_any_year_are_written_as_the_contract_does(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(at,) for at in TIMES], "due_ms long").coalesce(1)

    said = [row.said for row in frame.select(moment(F.col("due_ms")).alias("said")).collect()]

    assert said == list(map(write_time, TIMES))
    assert list(map(parse_time, said)) == TIMES
