"""Log lines that come again and again: while a broker is away, each try of each partition would write one."""

import logging

_WINDOW_S = 10.0
#: Those who try again and again.
_LOGGERS = ("app", "tables", "aiokafka")
#: Sentences that are remembered at a time.
_MOST = 1_000


class RateLimitFilter(logging.Filter):
    """Lets a warning or an error through once in ten seconds; the next one then says how many were left out."""

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
