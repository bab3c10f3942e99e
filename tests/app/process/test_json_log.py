"""Log lines as JSON objects: one a line, whatever is said in them."""

import json
import logging
import sys

from app.process.json_log import JsonFormatter


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
