"""Spark's messages are reported in one line."""

import pytest
from pyspark.errors import PySparkException

from pipeline.spark_errors import sentence


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("[FIELD_NOT_FOUND] There is no field.\n  at line 1", "[FIELD_NOT_FOUND] There is no field."),
        (
            "An error occurred while calling None.X.\n: java.net.BindException: in use\n\tat y",
            "java.net.BindException: in use",
        ),
    ],
)
def test_it_is_the_first_line_or_javas_cause(said: str, line: str) -> None:
    assert sentence(PySparkException(said)) == line
