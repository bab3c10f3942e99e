"""Inputs are read whole, or refused with a sentence that names the remedy."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import Row, SparkSession

from pipeline.bulk.due import due_ms
from pipeline.bulk.inputs import BROKEN, read
from pipeline.errors import InputUnreadable, PipelineError
from pipeline.spark_errors import explained


def rows_of(
    spark: SparkSession, path: Path, kind: str, content: bytes, options: Mapping[str, str] | None = None
) -> list[Row]:
    path.write_bytes(content)
    rows: list[Row] = read(spark, str(path), kind, options or {}).collect()
    return rows


def test_text_that_is_not_utf8_is_no_valid_row(spark: SparkSession, tmp_path: Path) -> None:
    latin = "name,at\nAnna,1\nJürgen,2\n".encode("latin-1")

    first, second = rows_of(spark, tmp_path / "a.csv", "csv", latin)

    assert first[BROKEN] is None
    assert second[BROKEN] == "J\ufffdrgen,2"
    named = rows_of(spark, tmp_path / "a.csv", "csv", latin, {"encoding": "ISO-8859-1"})
    assert [(row["name"], row[BROKEN]) for row in named] == [("Anna", None), ("Jürgen", None)]
    with pytest.raises(InputUnreadable, match=r"the header line of INPUT is not UTF-8\. Name its encoding"):
        rows_of(spark, tmp_path / "b.csv", "csv", "größe,at\n1,2\n".encode("latin-1"))
    with pytest.raises(InputUnreadable, match=r"no line of INPUT is a JSON object in UTF-8"):
        rows_of(spark, tmp_path / "a.jsonl", "jsonl", '{"name": "Jürgen"}\n'.encode("latin-1"))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_columns_with_another_separator_are_no_single_column(
    spark: SparkSession, tmp_path: Path, separator: str
) -> None:
    content = f"name{separator}at\nAnna{separator}1\n".encode()
    with pytest.raises(InputUnreadable, match=r"INPUT has a single column, .*: --reader-option 'sep="):
        rows_of(spark, tmp_path / "a.csv", "csv", content)
    [row] = rows_of(spark, tmp_path / "a.csv", "csv", content, {"sep": separator})
    assert (row["name"], row["at"]) == ("Anna", "1")


@pytest.mark.parametrize(
    "document", ['[\n  {"at": 1},\n  {"at": 2}\n]\n', '{\n  "at": 1\n}\n', '[{"at": 1},\n{"at": 2}]\n']
)
def test_a_json_document_of_several_lines_is_not_read_by_the_line(
    spark: SparkSession, tmp_path: Path, document: str
) -> None:
    with pytest.raises(
        InputUnreadable, match=r"is one JSON document of several lines. Give --reader-option multiLine=true"
    ):
        rows_of(spark, tmp_path / "a.json", "jsonl", document.encode())
    assert {
        row["at"] for row in rows_of(spark, tmp_path / "a.json", "jsonl", document.encode(), {"multiLine": "true"})
    } >= {1}


def test_an_array_in_one_line_has_a_row_for_each_object(spark: SparkSession, tmp_path: Path) -> None:
    assert [row["at"] for row in rows_of(spark, tmp_path / "a.json", "jsonl", b'[{"at": 1}, {"at": 2}]\n')] == [1, 2]


def test_parquet_has_the_columns_of_all_its_files(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"at": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"at": [2], "more": ["x"]}), tmp_path / "b.parquet")

    rows = read(spark, str(tmp_path), "parquet", {})

    assert {(row["at"], row["more"]) for row in rows.collect()} == {(1, None), (2, "x")}


def test_files_with_other_types_of_a_column_are_named_as_such(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"at": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"at": ["x"]}), tmp_path / "b.parquet")

    def error(options: Mapping[str, str]) -> PipelineError:
        with pytest.raises(Exception, match=r".") as raised:
            read(spark, str(tmp_path), "parquet", options).collect()
        return explained(raised.value)

    assert str(error({})).startswith('the files of INPUT have different types of one column, "BIGINT" and "STRING". ')
    assert "b.parquet has another type of a column than other files of INPUT" in str(error({"mergeSchema": "false"}))


def test_nanoseconds_are_times_that_are_not_early(spark: SparkSession, tmp_path: Path) -> None:
    nanos = 1_800_000_000_000_000_001
    table = {
        "zoned": pa.array([nanos, None], pa.timestamp("ns", "UTC")),
        "plain": pa.array([nanos, 0], pa.timestamp("ns")),
    }
    parquet.write_table(pa.table({**table, "number": [nanos, 0]}), tmp_path / "a.parquet")

    rows = read(spark, str(tmp_path), "parquet", {})

    kinds = {field.name: field.dataType for field in rows.schema}
    due = rows.select(*(due_ms(rows[name], kinds[name], "--at").alias(name) for name in table)).collect()
    assert [kinds[name].typeName() for name in (*table, "number")] == ["timestamp", "timestamp_ntz", "long"]
    assert [tuple(row) for row in due] == [(1_800_000_000_001, 1_800_000_000_001), (None, 0)]
