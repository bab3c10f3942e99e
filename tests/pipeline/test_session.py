"""A session works where its user is, and leaves nothing there."""

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession


def test_relative_paths_are_the_users_and_nothing_of_spark_is_left_there(spark: SparkSession, tmp_path: Path) -> None:
    before, there = set(Path().iterdir()), Path(os.path.relpath(tmp_path))

    spark.range(3).write.parquet(str(there / "rows"))

    assert spark.read.parquet(str(there / "rows")).count() == 3
    assert list(tmp_path.glob("rows/*.parquet"))
    assert set(Path().iterdir()) <= before
    temporary = spark._jvm.java.lang.System.getProperty("java.io.tmpdir")  # type: ignore[union-attr, unused-ignore]
    assert Path(temporary) != Path(tempfile.gettempdir()), "a JVM that is killed leaves there what it has"
