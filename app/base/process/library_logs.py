"""What Faust, mode and aiokafka log of every step of theirs: 70 lines at a start, among which ours would be lost."""

import contextlib
import logging
from collections.abc import Iterator

from aiokafka.errors import BrokerResponseError

_THEIRS = ("faust", "mode", "aiokafka")
#: What aiokafka logs as an error while a topic is new.
_NEW_TOPIC = "Topic %s not found in cluster metadata"
#: So begin the lines of mode's services, our own subclasses among them (mode/services.py, _format_log).
_SERVICE = "[^"


class LibraryLogFilter(logging.Filter):
    """Leaves out what others say below a warning, and has no error of what they only do again; not for `-l debug`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        if record.levelno == logging.ERROR and _is_theirs(record) and _is_done_again(record):
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        if record.levelno >= logging.WARNING:
            return True
        return not (_is_theirs(record) or str(record.msg).startswith(_SERVICE))


def _is_theirs(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in _THEIRS


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


def _is_done_again(record: logging.LogRecord) -> bool:
    """Whether a library asks a broker again by itself: nothing is wrong while topics, or the first group, are new.

    ERROR is what operators have alarms for.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    answers = [one for one in arguments if isinstance(one, BrokerResponseError)]
    return record.msg == _NEW_TOPIC or (bool(answers) and all(answer.retriable for answer in answers))
