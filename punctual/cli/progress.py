"""A line on a terminal that shows how far something is, and when it is likely to be over."""

import shutil
import sys
import time
from typing import Final

from punctual.cli.terminal import is_watched
from punctual.cli.times import duration

_BAR: Final = 24
_EVERY_S: Final = 0.1
_ERASE: Final = "\r\x1b[K"
#: A rate of less than this says nothing about what is left.
_BEGINNING_S: Final = 1.0


class Progress:
    """Shows how much of a total, if that is known, is done on stderr, if that is a terminal; else it writes nothing."""

    def __init__(self, what: str, total: int | None = None) -> None:
        """Show nothing yet."""
        self._what, self._total = what, total
        self._shown = is_watched()
        self._began_s, self._next_s, self._before = time.monotonic(), 0.0, -1

    def show(self, done: int) -> None:
        """Say that so much is done; it is written a few times a second."""
        now_s = time.monotonic()
        if not self._shown or now_s < self._next_s:
            return
        if self._before < 0:
            self._before = done
        self._next_s = now_s + _EVERY_S
        width = shutil.get_terminal_size().columns - 1
        self._write(_ERASE + self._line(done, now_s - self._began_s)[:width])

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write(_ERASE)

    def _line(self, done: int, passed_s: float) -> str:
        if self._total is None:
            return f"{self._what} {done:,}"
        total = max(self._total, done, 1)
        bar = ("▇" * (done * _BAR // total)).ljust(_BAR)
        line = f"{self._what} {bar} {done:,} of {total:,}"
        rate = (done - self._before) / passed_s if passed_s > _BEGINNING_S else 0.0
        if not rate:
            return line
        return f"{line}, {rate:,.0f} a second, {duration(round((total - done) / rate * 1_000))} left"

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
