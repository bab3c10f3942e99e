"""A filter for the logs of Faust, mode and aiokafka, whose 70 lines at a start would hide Punctual's own."""

import contextlib
import logging
from collections.abc import Iterator

from aiokafka.errors import BrokerResponseError

_THEIRS = ("faust", "mode", "aiokafka")
#: aiokafka logs this as an error while a topic is new.
_NEW_TOPIC = "Topic %s not found in cluster metadata"
#: The beginning of lines by mode's services, including subclasses of Punctual (mode/services.py, _format_log).
_SERVICE = "[^"


class LibraryLogFilter(logging.Filter):
    """Drops libraries' records below WARNING, and turns errors that they retry into warnings; not with `-l debug`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; errors of libraries that are tried again become warnings."""
        if record.levelno == logging.ERROR and _is_theirs(record) and _is_done_again(record):
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        if record.levelno >= logging.WARNING:
            return True
        return not (_is_theirs(record) or str(record.msg).startswith(_SERVICE))


def _is_theirs(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in _THEIRS


@contextlib.contextmanager
def silent(name: str) -> Iterator[None]:
    """Silence a logger while its errors are also raised and logged by Punctual."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _is_done_again(record: logging.LogRecord) -> bool:
    """Return whether the library retries by itself, as it does while topics or the first group are new.

    Operators have alarms for ERROR.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    answers = [one for one in arguments if isinstance(one, BrokerResponseError)]
    return record.msg == _NEW_TOPIC or (bool(answers) and all(answer.retriable for answer in answers))
