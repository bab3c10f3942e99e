"""Each row becomes a request or is rejected with a reason."""

import datetime as dt
import hashlib
import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.bulk.due import due_ms
from pipeline.bulk.expressions import SETTINGS
from pipeline.bulk.mapping import Mapping, RowLimits
from pipeline.bulk.repeats import essence, may_repeat, without_repeats
from pipeline.bulk.requests import requests
from pipeline.bulk.sending import using
from pipeline.errors import OptionInvalid, SchemaMismatch

NOW = 1_800_000_000_000
LIMITS = RowLimits(NOW, 5 * 365 * 86_400_000, 10_000)


def mapping(**options: Any) -> Mapping:
    return Mapping(
        **{"job": "job", "at": "at", "to": "'orders'", "value": "value", "natural_key": ("number",)} | options
    )


def requests_of(rows: DataFrame, **options: Any) -> list[Row]:
    with using(rows.sparkSession, SETTINGS):
        requests_or_rejects: list[Row] = requests(rows, mapping(**options), LIMITS).collect()
    return requests_or_rejects


def test_each_bad_row_is_rejected_with_its_reason(spark: SparkSession) -> None:
    valid_row: dict[str, str | None] = {
        "number": "1",
        "at": str(NOW),
        "to": "orders",
        "key": "1",
        "value": "1",
        "header": "1",
        "place": "1",
    }
    cases: list[tuple[str | None, dict[str, str | None]]] = [
        (None, {}),
        (None, {"at": "0"}),
        (None, {"to": "Topic_9.-" + "a" * 240}),
        (None, {"key": None, "value": None, "header": None, "place": None}),
        ("missing-due", {"at": None}),
        ("bad-due", {"at": "tomorrow"}),
        ("bad-due", {"at": "-1"}),
        ("bad-due", {"at": "1801468800"}),
        ("bad-due", {"at": "2027"}),
        ("bad-due", {"at": f"{NOW}000"}),
        ("bad-due", {"at": "2027-02-30"}),
        ("too-far", {"at": "2099-01-01"}),
        ("missing-destination", {"to": None}),
        ("missing-destination", {"to": ""}),
        ("unknown-topic", {"to": "no topic"}),
        ("unknown-topic", {"to": "orders\n"}),
        ("unknown-topic", {"to": "ördérs"}),
        ("unknown-topic", {"to": "a*"}),
        ("unknown-topic", {"to": ".."}),
        ("unknown-topic", {"to": "a" * 250}),
        ("bad-id", {"number": None}),
        ("bad-id", {"number": ""}),
        ("bad-id", {"number": "é" * 129}),
        ("bad-key", {"key": "x"}),
        ("bad-value", {"value": "x"}),
        ("bad-header", {"header": "x"}),
        ("bad-partition", {"place": "-1"}),
        ("bad-partition", {"place": "x"}),
        ("too-large", {"value": "9" * 9_000}),
    ]
    rows = spark.createDataFrame(
        [valid_row | changes for _, changes in cases], ", ".join(f"{name} string" for name in valid_row)
    )
    checked = requests_of(
        rows,
        id="number",
        to="to",
        key="cast(key as int)",
        value="if(value = 'x', raise_error('x'), value)",
        headers=(("h", "cast(header as int)"),),
        to_partition="place",
    )

    assert [row["reason"] for row in checked] == [reason for reason, _ in cases]
    assert checked[4]["row"].asDict() == valid_row | cases[4][1]


def test_an_expression_that_two_options_share_fails_only_for_the_bad_row(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("2027-03-01", 1), ("x", 2)], "day string, number int")
    shared = "to_timestamp(day) + interval 9 hours"

    checked = requests_of(rows, at=shared, value=f"date_format({shared}, 'HH')", headers=(("at", shared),))

    assert [row["reason"] for row in checked] == [None, "bad-due"]
    assert checked[0]["due_ms"] == dt.datetime(2027, 3, 1, 9, tzinfo=dt.UTC).timestamp() * 1000
    assert checked[0]["value"] == b"09"


_DUE = {
    "timestamp'2027-01-01 00:00:00.000001'": 1_798_761_600_001,
    "timestamp'1969-12-31 23:59:59.998999'": -1,
    "timestamp_ntz'2027-01-01 00:00:00'": 1_798_761_600_000,
    "date'2027-01-01'": 1_798_761_600_000,
    "1798761600000": 1_798_761_600_000,
    "1798761600000.5": 1_798_761_600_001,
    "1.7987616e12D": 1_798_761_600_000,
    "double('NaN')": None,
    "' 1798761600000 '": 1_798_761_600_000,
    "'2027-01-01'": 1_798_761_600_000,
    "'2027-01-01 01:00'": 1_798_765_200_000,
    "'2027-01-01t01:00:00.5z'": 1_798_765_200_500,
    "'2027-01-01T01:00:00+02:00'": 1_798_758_000_000,
    "'01:00'": None,
    "'2027-01'": None,
    "'2027-02-30'": None,
    "'1798761600000.5'": None,
    "'-5'": None,
    "-5": -5,
    "0": 0,
    "999": 999,
    "1000": None,
    "99999999999": None,
    "100000000000": 100_000_000_000,
    "999999999999999": 999_999_999_999_999,
    "1798761600000000": None,
    "1798761600000000000": None,
    "2027": None,
    "1801468800.5D": None,
    "1801468800.5": None,
    "'2027'": None,
    "'20270131'": None,
    "'1801468800'": None,
    "null": None,
}


def test_due_times_are_read_from_every_type(spark: SparkSession) -> None:
    single_row = spark.range(1)
    types = {sql: single_row.select(F.expr(sql)).schema[0].dataType for sql in _DUE}
    columns = [due_ms(F.expr(sql), type_, "--at").alias(sql) for sql, type_ in types.items()]
    assert single_row.select(columns).collect()[0].asDict() == _DUE


def test_ids_are_the_same_in_every_run_order_and_format(spark: SparkSession) -> None:
    keys = [(number, "a" if number % 2 else None) for number in range(6)]
    rows = spark.createDataFrame([(*key, NOW) for key in keys], "number int, part string, at long")
    text_rows = spark.createDataFrame(
        [(str(number), part, str(NOW)) for number, part in reversed(keys)], "number string, part string, at string"
    )

    first, second = (
        {
            int(row["row"]["number"]): row["id"]
            for row in requests_of(frame, value="null", natural_key=("number", "part"))
        }
        for frame in (rows, text_rows)
    )

    assert first == second
    assert len(set(first.values())) == len(keys)
    assert first[0] == "job:" + hashlib.sha256(f"1:0-{NOW}".encode()).hexdigest()[:32]
    later_requests = requests_of(rows.where("number = 0"), value="null", at="at + 1", natural_key=("number", "part"))
    assert later_requests[0]["id"] not in first.values()


def test_natural_keys_whose_parts_are_divided_differently_have_different_ids(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a", "b,c", NOW), ("a,b", "c", NOW), ('a"', '"', NOW)], "x string, y string, at long"
    )
    ids = {row["id"] for row in requests_of(rows, value="null", natural_key=("x", "y"))}
    assert len(ids) == 3


def test_one_of_several_equal_rows_is_sent_and_no_row_of_an_id_with_different_contents(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, "x"), (2, "x"), (2, "x"), (2, "x"), (3, "x"), (3, "y"), (4, "x"), (None, "x"), (None, "x")],
        "number int, value string",
    )
    with using(spark, SETTINGS):
        candidates = requests(rows, mapping(at=str(NOW)), LIMITS)
        checked = without_repeats(candidates).collect()
        assert may_repeat(essence(candidates))
        assert not may_repeat(essence(candidates.where("row.number = 4 or row.number is null")))

    reasons = sorted((row["row"]["number"] or 0, row["reason"] or "") for row in checked)
    duplicate = "duplicate-id"
    assert reasons == [
        (0, "bad-id"),
        (0, "bad-id"),
        (1, ""),
        (2, ""),
        (2, duplicate),
        (2, duplicate),
        (3, duplicate),
        (3, duplicate),
        (4, ""),
    ]


def test_a_row_as_json_has_all_columns_and_digits(spark: SparkSession) -> None:
    rows = spark.sql(
        f"select {NOW} at, 7 number, null nothing, timestamp'2027-01-01 00:00:00.123456' t, 'é' `a b`, "
        "timestamp_ntz'2027-01-01 00:00:29.468045' unzoned, 0.1234567890123456789012345678901234567BD exact, "
        "array(timestamp_ntz'2027-01-01 00:00:00.000001') nested"
    )

    with_all_columns = requests_of(rows, value=None)
    with_two_columns = requests_of(rows, value=None, value_columns=("a b", "number"))

    assert json.loads(with_all_columns[0]["value"], parse_float=str) == {
        "at": NOW,
        "number": 7,
        "nothing": None,
        "t": "2027-01-01T00:00:00.123456Z",
        "a b": "é",
        "unzoned": "2027-01-01T00:00:29.468045",
        "exact": "0.1234567890123456789012345678901234567",
        "nested": ["2027-01-01T00:00:00.000001"],
    }
    assert with_two_columns[0]["value"].decode() == '{"a b":"é","number":7}'


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"at": "due"},
            SchemaMismatch,
            "--at: there is no column `due`, there are at, number, value, parts. (Put a text",
        ),
        ({"natural_key": ("nr",)}, SchemaMismatch, "--natural-key: there is no column `nr`"),
        ({"value": "parts"}, SchemaMismatch, "--value is of the type array<int>, which is not a text"),
        ({"at": "true"}, SchemaMismatch, "--at is of the type boolean, which is not a time"),
        ({"headers": (("h", "upper("),)}, OptionInvalid, "--header h 'upper(' is not an SQL expression: "),
        (
            {"id": "no_such(number)"},
            SchemaMismatch,
            "--id 'no_such(number)' does not fit the input: [UNRESOLVED_ROUTINE]",
        ),
        ({"key": "*"}, OptionInvalid, "--key '*' gives 4 columns"),
    ],
)
def test_an_option_that_fits_no_row_is_an_error(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    rows = spark.sql("select 1L at, 2 number, 'x' value, array(1) parts")
    with pytest.raises(error) as error_info:
        requests(rows, mapping(**options), LIMITS)
    assert str(error_info.value).startswith(message)
    assert not caplog.records
