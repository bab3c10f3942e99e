"""Each error of Spark is reported in one line."""

import pytest
from pyspark.errors import PySparkException

from pipeline.spark_errors import sentence


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("[FIELD_NOT_FOUND] There is no field.\n  at line 1", "[FIELD_NOT_FOUND] There is no field."),
        (
            "An error occurred while calling None.X.\n: java.net.BindException: in use\n\tat y",
            "java.net.BindException: in use",
        ),
    ],
)
def test_the_line_is_the_first_of_the_message_or_the_cause_in_java(message: str, line: str) -> None:
    assert sentence(PySparkException(message)) == line
