"""A file of lines, named by a setting, which is read again when it changes."""

import logging
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Sized)
#: A line with content, and its number.
Line = tuple[int, str]

_EVERY_S: Final = 1.0

log = logging.getLogger(__name__)


class WatchedFile(Generic[T]):
    """The parsed content of a file, without empty lines and lines that begin with `#`.

    If the file cannot be read any more, its last content stays in use.
    """

    def __init__(self, setting: str, path: str, parse: Callable[[list[Line]], T], what: str) -> None:
        """Read the file at `path`; an empty path is no file. `what` says in the log how the lines are used.

        Raises ValueError, also from `parse`, which names the problem and the line, without secrets.
        """
        self._setting, self._parse, self._what = setting, parse, what
        self._path = Path(path) if path else None
        self._seen = self._told = self._state()
        self._content = self._read()
        self._checked_s = float("-inf")

    def __bool__(self) -> bool:
        """Return whether there is a file."""
        return self._path is not None

    def content(self, now_s: float) -> T:
        """Return the content; checks once a second, by the loop's clock, whether the file has changed."""
        if self._path is not None and now_s - self._checked_s >= _EVERY_S:
            self._checked_s = now_s
            self._look()
        return self._content

    @property
    def last(self) -> T:
        """The content as it was last read."""
        return self._content

    def _look(self) -> None:
        state = self._state()
        if state == self._seen:
            self._told = state
            return
        try:
            self._content = self._read()
        except ValueError as error:
            if state != self._told:  # and tries again, because permissions are not part of the state
                self._told = state
                log.error(  # noqa: TRY400 - the sentence says it
                    "%s has changed, but is not valid: %s. The previous content stays in use.", self._setting, error
                )
        else:
            self._seen = self._told = state
            log.info("%s has changed: it now has %d %s", self._setting, len(self._content), self._what)

    def _state(self) -> tuple[int, ...]:
        """Return a value that changes when the file does."""
        try:
            stat = self._path.stat() if self._path is not None else None
        except OSError:
            return ()
        return () if stat is None else (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _read(self) -> T:
        try:
            text = "" if self._path is None else self._path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"it cannot be read: {why}") from error
        return self._parse(lines_of(text))


def lines_of(text: str) -> list[Line]:
    """Return the lines of a text without empty lines and lines that begin with `#`."""
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in lines if line and not line.startswith("#")]
