"""Reads the rows of an input: Parquet, CSV, JSON lines, or a table in Spark's catalog."""

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StringType, StructType

from pipeline.bulk.expressions import quoted
from pipeline.bulk.rejects import REASON
from pipeline.errors import InputUnreadable
from pipeline.hadoop import nanosecond_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "jsonl", "table")
#: The column with the raw line of a row that is not valid CSV or JSON, whose other columns are null.
BROKEN = "_corrupt_record"
#: Spark decodes bytes that are not UTF-8 to this character.
_UNDECODED = "\ufffd"
_LATIN = "is not UTF-8. Name its encoding, for example --reader-option encoding=ISO-8859-1."


def read(spark: "SparkSession", source: str, kind: str, options: "Mapping[str, str]") -> "DataFrame":
    """Return the rows of a file, a directory, a pattern of them, or a table; `options` are Spark's for the format.

    Parquet files have all columns that any of them has, and nanoseconds become microseconds. CSV needs a header line,
    and all its columns are text, so `007` stays `007`. An invalid line of CSV or JSON becomes a row with BROKEN. The
    reason column of rejected rows is dropped. Raises InputUnreadable.
    """
    if kind == "table":
        return spark.table(source)
    if kind == "parquet":
        return _parquet(spark, source, {"mergeSchema": "true"} | dict(options)).drop(REASON)
    return _csv(spark, source, options) if kind == "csv" else _json(spark, source, options)


def _parquet(spark: "SparkSession", source: str, options: "Mapping[str, str]") -> "DataFrame":
    try:
        return spark.read.options(**options).parquet(source)
    except AnalysisException as error:
        if error.getCondition() != "PARQUET_TYPE_ILLEGAL" or "NANOS" not in str(error):
            raise
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    rows = spark.read.options(**options).parquet(source)
    nanoseconds: dict[str, bool] = {}
    for file in rows.inputFiles():
        nanoseconds |= nanosecond_columns(spark, file)
    return rows.withColumns({name: _micros(name, zoned=zoned) for name, zoned in nanoseconds.items()})


def _micros(name: str, *, zoned: bool) -> Column:
    """Return a column of epoch nanoseconds as timestamps, rounded up, so that nothing is due early."""
    nanos = F.col(quoted(name))
    remainder = F.pmod(nanos, F.lit(1000))
    at = F.timestamp_micros(((nanos - remainder) / 1000).cast("long") + F.when(remainder > 0, 1).otherwise(0))
    return at if zoned else at.cast("timestamp_ntz")


def _csv(spark: "SparkSession", source: str, options: "Mapping[str, str]") -> "DataFrame":
    # A quote in a quoted value is written twice (RFC 4180); columns are matched by name in each file. Whether a line is
    # valid does not depend on the columns that are read of it.
    defaults = {"header": "true", "escape": '"', "enforceSchema": "false", "columnPruning": "false"}
    reader = spark.read.options(**defaults | dict(options))
    schema = reader.csv(source).schema
    names = [name for name in schema.names if name != BROKEN]
    separator = next((each for each in ";\t|" if len(names) == 1 and each in names[0]), None)
    if separator and not {"sep", "delimiter"} & options.keys():
        raise InputUnreadable(
            f"INPUT has a single column, {names[0]}. Name the character between its columns: --reader-option "
            f"{f'sep={separator}'!r}."
        )
    if any(_UNDECODED in name for name in names):
        raise InputUnreadable(f"the header line of INPUT {_LATIN}")
    rows = reader.schema(_with_broken(schema)).csv(source)
    text = F.concat_ws(",", *(quoted(name) for name in names))
    return rows.withColumn(BROKEN, F.coalesce(BROKEN, F.when(text.contains(_UNDECODED), text)))


def _json(spark: "SparkSession", source: str, options: "Mapping[str, str]") -> "DataFrame":
    reader = spark.read.options(**options)
    if "multiLine" not in options:
        first = next((row[0].strip() for row in spark.read.text(source).head(1)), "")
        if first in ("{", "[") or (first.startswith("[") and not first.endswith("]")):
            raise InputUnreadable(
                "INPUT is one JSON document of several lines. Give --reader-option multiLine=true, or write an object "
                "on each line."
            )
    schema = reader.json(source).schema
    if schema.names == [BROKEN]:
        raise InputUnreadable("no line of INPUT is a JSON object in UTF-8. For another format, give --format.")
    return reader.schema(_with_broken(schema)).json(source)


def _with_broken(schema: StructType) -> StructType:
    return schema if BROKEN in schema.names else schema.add(BROKEN, StringType())
