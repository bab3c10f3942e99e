"""A line on a terminal that shows how far something is, and when it is likely to be over."""

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
#: A rate over less than this says nothing about what is left.
_BEGINNING_S: Final = 1.0


class Progress:
    """Counts, and says so on stderr while it is used as a context, if that is a terminal."""

    def __init__(self, what: str, total: int | None = None, start: int = 0) -> None:
        """Count so many of something, if it is known how many there are, from those that are done already."""
        self._what, self._total = what, total
        self._shows = is_watched() and os.environ.get("TERM") != "dumb"
        self._began_s, self._next_s = time.monotonic(), 0.0
        self._before = self.count = start

    def __enter__(self) -> Self:
        """Begin to count."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away."""
        self.erase()

    def erase(self) -> None:
        """Take the line away until there is more."""
        if self._shows and self._next_s:
            _write(_ERASE)

    def add(self, number: int) -> None:
        """Count so many more; it is said a few times a second."""
        self.count += number
        now_s = time.monotonic()
        if self._shows and now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            width = shutil.get_terminal_size().columns - 1
            _write(_ERASE + self._line(now_s - self._began_s)[:width])

    def reach(self, count: int) -> None:
        """Count up to so many."""
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
