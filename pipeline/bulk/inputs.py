"""Reads the rows of an input: Parquet, CSV, JSON lines, or a table in Spark's catalog."""

from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructType

from pipeline.bulk.rejects import REASON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "jsonl", "table")
#: The column with the raw line of a row that is not valid CSV or JSON, whose other columns are null.
BROKEN = "_corrupt_record"


def read(spark: "SparkSession", source: str, kind: str, options: "Mapping[str, str]") -> "DataFrame":
    """Return the rows of a file, a directory, a pattern of them, or a table; `options` are Spark's for the format.

    CSV needs a header line, and all its columns are text, so `007` stays `007`. An invalid line of CSV or JSON becomes
    a row with BROKEN. The reason column of rejected rows is dropped.
    """
    if kind == "table":
        return spark.table(source)
    if kind == "parquet":
        return spark.read.options(**options).parquet(source).drop(REASON)
    if kind == "csv":
        # A quote in a quoted value is written twice (RFC 4180); columns are matched by name in each file.
        defaults = {"header": "true", "escape": '"', "enforceSchema": "false"}
        reader = spark.read.options(**defaults | dict(options))
        return reader.schema(_with_broken(reader.csv(source).schema)).csv(source)
    reader = spark.read.options(**options)
    return reader.schema(_with_broken(reader.json(source).schema)).json(source)


def _with_broken(schema: StructType) -> StructType:
    return schema if BROKEN in schema.names else schema.add(BROKEN, StringType())
