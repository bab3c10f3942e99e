"""The log: lines for machines, one JSON object each, and a filter for lines that repeat."""

import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

#: What a line is about, if it was logged with `extra` of these names. A partition beside a topic is that topic's.
FIELDS: Final = ("topic", "partition", "offset", "destination")


class JsonFormatter(logging.Formatter):
    """Writes each record as one JSON object on one line, an exception in it as a string."""

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
#: Those who try again and again.
_LOGGERS = ("app", "tables", "aiokafka")
#: Sentences that are remembered at a time.
_MOST = 1_000


class RateLimitFilter(logging.Filter):
    """Lets a warning or an error through once in ten seconds; the next one then says how many were left out.

    While a broker is down, each attempt of each partition would log a line.
    """

    def __init__(self) -> None:
        """Have seen nothing."""
        super().__init__()
        #: When each sentence was last let through, and how often it has come since.
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; its sentence may get an end."""
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
        """Make room: what has not been left out lately says nothing more."""
        if len(self._seen) >= _MOST:
            self._seen = {sentence: seen for sentence, seen in self._seen.items() if now - seen[0] < _WINDOW_S}
