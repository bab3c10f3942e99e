"""A progress line on a terminal, with an estimate of the remaining time."""

import os
import shutil
import sys
import time
from typing import Final, Self

from punctual.cli.terminal import is_watched
from punctual.durations import duration

_BAR: Final = 24
_EVERY_S: Final = 0.1
_ERASE: Final = "\r\x1b[K"
#: The minimum time for a rate: a shorter one does not predict the rest.
_BEGINNING_S: Final = 1.0


class Progress:
    """Counts, and while it is used as a context shows the count on stderr, if that is a terminal."""

    def __init__(self, what: str, total: int | None = None, start: int = 0) -> None:
        """Count `what`, from `start` to `total`, if that is known."""
        self._what, self._total = what, total
        self._shows = is_watched() and os.environ.get("TERM") != "dumb"
        self._began_s, self._next_s = time.monotonic(), 0.0
        self._before = self.count = start

    def __enter__(self) -> Self:
        """Begin to count."""
        return self

    def __exit__(self, *_: object) -> None:
        """Erase the line."""
        self.erase()

    def erase(self) -> None:
        """Erase the line until the next count."""
        if self._shows and self._next_s:
            _write(_ERASE)

    def add(self, number: int) -> None:
        """Add to the count; the line is updated a few times a second."""
        self.count += number
        now_s = time.monotonic()
        if self._shows and now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            width = shutil.get_terminal_size().columns - 1
            _write(_ERASE + self._line(now_s - self._began_s)[:width])

    def reach(self, count: int) -> None:
        """Set the count."""
        self.add(count - self.count)

    def _line(self, passed_s: float) -> str:
        rate = (self.count - self._before) / passed_s if passed_s > _BEGINNING_S else 0.0
        pace = f", {rate:,.0f} a second" if rate else ""
        if self._total is None:
            return f"{self.count:,} {self._what}{pace}"
        total = max(self._total, self.count, 1)
        left = f", {duration(round((total - self.count) / rate * 1_000))} left" if rate else ""
        bar = ("▇" * (self.count * _BAR // total)).ljust(_BAR)
        return f"{bar} {self.count:,} of {total:,} {self._what}{pace}{left}"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
