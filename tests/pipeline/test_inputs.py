"""An input is read completely, or refused with an error that names the remedy."""

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
    spark: SparkSession, path: Path, format_: str, content: bytes, options: Mapping[str, str] | None = None
) -> list[Row]:
    path.write_bytes(content)
    rows: list[Row] = read(spark, str(path), format_, options or {}).collect()
    return rows


def test_a_row_that_is_not_utf8_is_not_valid(spark: SparkSession, tmp_path: Path) -> None:
    latin1_content = "name,at\nAnna,1\nJürgen,2\n".encode("latin-1")

    first, second = rows_of(spark, tmp_path / "a.csv", "csv", latin1_content)

    assert first[BROKEN] is None
    assert second[BROKEN] == "J\ufffdrgen,2"
    rows = rows_of(spark, tmp_path / "a.csv", "csv", latin1_content, {"encoding": "ISO-8859-1"})
    assert [(row["name"], row[BROKEN]) for row in rows] == [("Anna", None), ("Jürgen", None)]
    with pytest.raises(InputUnreadable, match=r"the header line of INPUT is not UTF-8\. Name its encoding"):
        rows_of(spark, tmp_path / "b.csv", "csv", "größe,at\n1,2\n".encode("latin-1"))
    with pytest.raises(InputUnreadable, match=r"no line of INPUT is a JSON object in UTF-8"):
        rows_of(spark, tmp_path / "a.jsonl", "jsonl", '{"name": "Jürgen"}\n'.encode("latin-1"))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_csv_file_with_another_separator_is_not_read_as_a_single_column(
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
def test_a_json_document_of_several_lines_is_not_read_line_by_line(
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


def test_rows_of_parquet_files_have_the_columns_of_all_files(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"at": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"at": [2], "more": ["x"]}), tmp_path / "b.parquet")

    rows = read(spark, str(tmp_path), "parquet", {})

    assert {(row["at"], row["more"]) for row in rows.collect()} == {(1, None), (2, "x")}


def test_an_error_names_the_file_whose_column_has_another_type(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"at": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"at": ["x"]}), tmp_path / "b.parquet")

    def error_with(options: Mapping[str, str]) -> PipelineError:
        with pytest.raises(Exception, match=r".") as error_info:
            read(spark, str(tmp_path), "parquet", options).collect()
        return explained(error_info.value)

    assert str(error_with({})).startswith(
        'the files of INPUT have different types of one column, "BIGINT" and "STRING". '
    )
    assert "b.parquet has another type of a column than other files of INPUT" in str(
        error_with({"mergeSchema": "false"})
    )


def test_a_time_in_nanoseconds_is_rounded_up_to_milliseconds(spark: SparkSession, tmp_path: Path) -> None:
    time_ns = 1_800_000_000_000_000_001
    columns = {
        "zoned": pa.array([time_ns, None], pa.timestamp("ns", "UTC")),
        "plain": pa.array([time_ns, 0], pa.timestamp("ns")),
    }
    parquet.write_table(pa.table({**columns, "number": [time_ns, 0]}), tmp_path / "a.parquet")

    rows = read(spark, str(tmp_path), "parquet", {})

    types = {field.name: field.dataType for field in rows.schema}
    due_times = rows.select(*(due_ms(rows[name], types[name], "--at").alias(name) for name in columns)).collect()
    assert [types[name].typeName() for name in (*columns, "number")] == ["timestamp", "timestamp_ntz", "long"]
    assert [tuple(row) for row in due_times] == [(1_800_000_000_001, 1_800_000_000_001), (None, 0)]
