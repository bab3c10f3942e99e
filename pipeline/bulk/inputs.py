"""Where rows come from: Parquet, CSV, JSON lines, or a table that Spark knows."""

from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructType

from pipeline.bulk.rejects import REASON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "jsonl", "table")
#: What is no CSV or JSON is here as it came, and the row's own columns are null.
BROKEN = "_corrupt_record"


def read(spark: "SparkSession", source: str, kind: str, options: "Mapping[str, str]") -> "DataFrame":
    """Return the rows of a file, a directory, a pattern of such, or a table; `options` are Spark's for the format.

    CSV has a line of names, and all its columns are text: nothing is guessed, `007` stays `007`. What cannot be read
    of CSV and JSON lines is a row with BROKEN. The reason of rows that were rejected before is left out.
    """
    if kind == "table":
        return spark.table(source)
    if kind == "parquet":
        return spark.read.options(**options).parquet(source).drop(REASON)
    if kind == "csv":
        # A quote in a quoted value is written twice (RFC 4180); names are looked at in each file.
        defaults = {"header": "true", "escape": '"', "enforceSchema": "false"}
        reader = spark.read.options(**defaults | dict(options))
        return reader.schema(_with_broken(reader.csv(source).schema)).csv(source)
    reader = spark.read.options(**options)
    return reader.schema(_with_broken(reader.json(source).schema)).json(source)


def _with_broken(schema: StructType) -> StructType:
    return schema if BROKEN in schema.names else schema.add(BROKEN, StringType())
