"""Calm, aligned lines on the terminal; colour only where it is welcome."""

import os
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final, TextIO

COLOURS: Final = {
    "delay": "36",
    "cancel": "33",
    "snooze": "35",
    "hurry": "35",
    "arrived": "32",
    "extra": "33",
    "EARLY": "1;31",
}
LINES_PER_SECOND: Final = 12


class Screen:
    """Writes events; above LINES_PER_SECOND it leaves lines out, and the summary has their number."""

    def __init__(self, out: TextIO, env: Mapping[str, str] = os.environ) -> None:
        """Use colour only on a terminal, but not with NO_COLOR (no-color.org) or a dumb terminal."""
        self._out = out
        self._colour = out.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def say(self, text: str = "") -> None:
        """Write a line unchanged."""
        self._out.write(f"{text}\n")
        self._out.flush()

    def event(self, what: str, message_id: str, figure: str, text: str) -> None:
        """Write one line of the story: time, kind of event, message, a figure, text."""
        if self._crowded():
            self._left_out += 1
            return
        now = datetime.now().astimezone()
        word = self._paint(f"{what:<8}", COLOURS.get(what, "0"))
        self.say(
            f"{now:%H:%M:%S}.{now.microsecond // 1000:03d}  {word} {message_id:<16} {figure:>14}   {text}".rstrip()
        )

    def summary(self, text: str) -> None:
        """Write the counts on a separate line."""
        more = f" · {self._left_out} lines left out" if self._left_out else ""
        self._left_out = 0
        self.say(self._paint(f"{'':<12}  ── {text}{more}", "1"))

    def _crowded(self) -> bool:
        second = int(time.monotonic())
        self._lines = self._lines + 1 if second == self._second else 1
        self._second = second
        return self._lines > LINES_PER_SECOND

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text
