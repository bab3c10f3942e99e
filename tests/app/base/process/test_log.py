"""Log lines as JSON objects, one per line, whatever the message contains."""

import ast
import json
import logging
import re
import sys
from pathlib import Path

import pytest

from app.base.process.log import JsonFormatter
from app.base.process.skipped_records import passed_over

APP = Path(__file__).parents[4] / "app"
NAMES = re.compile(r"\b(partition|destination|topic) %[sd]|%s-%d")


def _record(message: str, *args: object) -> logging.LogRecord:
    record = logging.LogRecord("aiokafka.consumer", logging.WARNING, "f.py", 1, message, args, None)
    record.created = 1_767_323_045.678
    return record


def test_line_has_time_level_logger_and_message() -> None:
    line = json.loads(JsonFormatter().format(_record("partition %d is late", 3)))
    assert line == {
        "time": "2026-01-02T03:04:05.678Z",
        "level": "warning",
        "logger": "aiokafka.consumer",
        "message": "partition 3 is late",
    }


def test_the_subjects_of_a_line_are_fields_in_addition_to_its_message() -> None:
    record = _record("a record of %s is passed over", "orders")
    about = {"topic": "orders", "partition": 0, "offset": 12, "destination": "orders@other", "unknown": "left out"}
    record.__dict__ |= about
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "a record of orders is passed over"
    assert {name: line.get(name) for name in about} == {**about, "unknown": None}


def test_a_skipped_record_is_logged_with_its_position(caplog: pytest.LogCaptureFixture) -> None:
    passed_over("delay-controls-of-this-test", 2, 7, "no JSON")
    line = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert (line["topic"], line["partition"], line["offset"]) == ("delay-controls-of-this-test", 2, 7)


def test_fields_without_a_value_are_left_out() -> None:
    record = _record("partition %d is late", 3)
    record.__dict__ |= {"partition": 3, "destination": None}
    assert set(json.loads(JsonFormatter().format(record))) == {"time", "level", "logger", "message", "partition"}


def test_whoever_names_a_partition_or_a_destination_in_a_sentence_has_it_as_a_field() -> None:
    assert [place for path in sorted(APP.rglob("*.py")) for place in without_fields(path)] == []


def without_fields(path: Path) -> list[str]:
    """Return where a file logs a sentence that names a partition, a topic or a destination, and no field."""
    text = path.read_text("utf-8")
    if "log." not in text:
        return []
    nodes = list(ast.walk(ast.parse(text)))
    assigned = (ast.unparse(node.value) for node in nodes if isinstance(node, ast.Assign))
    sentences = [value for value in assigned if NAMES.search(value)]
    return [
        f"{path.relative_to(APP)}:{call.lineno}"
        for call in nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "log"
        if all(one.arg != "extra" for one in call.keywords)
        if NAMES.search(" ".join(map(ast.unparse, call.args)))
        or (sentences and "sentence" in map(ast.unparse, call.args))
    ]


def test_exception_is_a_string_on_the_same_line() -> None:
    record = _record("first\nsecond")
    try:
        int("no number")
    except ValueError:
        record.exc_info = sys.exc_info()
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "first\nsecond"
    assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'no number'")
