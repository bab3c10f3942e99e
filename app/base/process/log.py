"""The log: JSON lines for machines, and a filter for repeated lines."""

import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

#: Fields of a JSON line that callers pass in `extra`. With a topic, the partition is the topic's.
FIELDS: Final = ("topic", "partition", "offset", "destination")


class JsonFormatter(logging.Formatter):
    """Formats each record as a JSON object on one line, with an exception as a string."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time, level, logger, message, the fields of FIELDS, exception and stack."""
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


_WINDOW_S = 10.0
#: Loggers with retries.
_LOGGERS = ("app", "tables", "aiokafka")
#: The maximum number of remembered messages.
_MOST = 1_000


class RateLimitFilter(logging.Filter):
    """Passes each warning or error once in ten seconds; the next time, it adds how many were left out.

    While a broker is down, each attempt of each partition would log a line.
    """

    def __init__(self) -> None:
        """Begin without remembered messages."""
        super().__init__()
        #: For each message, the time when it was last passed, and the number left out since.
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; its message may get a suffix."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in _LOGGERS:
            return True
        sentence = record.name, record.getMessage()
        then, left_out = self._seen.get(sentence, (float("-inf"), 0))
        if record.created - then < _WINDOW_S:
            self._seen[sentence] = then, left_out + 1
            return False
        self._forget(record.created)
        self._seen[sentence] = record.created, 0
        if left_out:
            record.msg, record.args = f"{sentence[1]} (and {left_out} more times since it was last logged)", ()
        return True

    def _forget(self, now: float) -> None:
        """Drop messages that have not been passed within the window, if there are too many."""
        if len(self._seen) >= _MOST:
            self._seen = {sentence: seen for sentence, seen in self._seen.items() if now - seen[0] < _WINDOW_S}
