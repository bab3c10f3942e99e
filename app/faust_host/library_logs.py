"""What Faust, mode and aiokafka log of every step of theirs: 70 lines at a start, among which ours would be lost."""

import contextlib
import logging
from collections.abc import Iterator

_THEIRS = ("faust", "mode", "aiokafka")
#: So begin the lines of mode's services, our own subclasses among them (mode/services.py, _format_log).
_SERVICE = "[^"


class LibraryLogFilter(logging.Filter):
    """Leaves out what others say below a warning; `-l debug` does without this filter."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        if record.levelno >= logging.WARNING:
            return True
        return record.name.partition(".")[0] not in _THEIRS and not str(record.msg).startswith(_SERVICE)


@contextlib.contextmanager
def silent(name: str) -> Iterator[None]:
    """Silence a logger while its errors are raised too, and then told in a sentence of ours."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
