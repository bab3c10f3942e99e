"""Log lines for machines: one JSON object a line."""

import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

#: What a line is about, if it was logged with `extra` of these names. A partition beside a topic is that topic's.
FIELDS: Final = ("topic", "partition", "offset", "destination")


class JsonFormatter(logging.Formatter):
    """Writes each record as one JSON object on one line, an exception in it as a string."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; only what the text format tells is told, so nothing that it keeps to itself."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return msgspec.json.encode(line).decode()
