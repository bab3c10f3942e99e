"""Files that a setting names, and which are read again when they change."""

import logging
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Sized)
#: A line with content, and its number.
Line = tuple[int, str]

_EVERY_S: Final = 1.0

log = logging.getLogger(__name__)


class Watch:
    """Loads files again when they change; invalid content is logged once, and the last valid content stays in use."""

    def __init__(self, setting: str, *paths: str | Path, content: str = "content") -> None:
        """Watch the files at `paths`; the log names the `setting`, and the `content` that stays in use."""
        self._setting, self._paths, self._content = setting, paths, content
        self._seen = self._told = state_of(*paths)

    def look(self, load: Callable[[], str]) -> None:
        """Call `load` if a file has changed; it returns the consequence for the log, or raises ValueError."""
        state = state_of(*self._paths)
        if state == self._seen:
            self._told = state
            return
        try:
            consequence = load()
        except ValueError as error:
            if state != self._told:  # and tries again, because permissions are not part of the state
                self._told = state
                log.error(  # noqa: TRY400 - the sentence says it
                    "%s has changed, but is not valid: %s. The previous %s stays in use.",
                    *(self._setting, error, self._content),
                )
        else:
            self._seen = self._told = state
            log.info("%s has changed: %s", self._setting, consequence)


def state_of(*paths: str | Path) -> tuple[int, ...]:
    """Return a value that changes when one of the files does."""
    state: list[int] = []
    for path in paths:
        try:
            stat = Path(path).stat()
        except OSError:
            state.append(0)
        else:
            state += (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return tuple(state)


class WatchedFile(Generic[T]):
    """The parsed content of a file, without empty lines and lines that begin with `#`.

    If the file cannot be read any more, its last content stays in use.
    """

    def __init__(self, setting: str, path: str, parse: Callable[[list[Line]], T], what: str) -> None:
        """Read the file at `path`; an empty path is no file. `what` says in the log how the lines are used.

        Raises ValueError, also from `parse`, which names the problem and the line, without secrets.
        """
        self._parse, self._what = parse, what
        self._path = Path(path) if path else None
        self._watch = Watch(setting, *([path] if path else []))
        self._content = self._read()
        self._checked_s = float("-inf")

    def __bool__(self) -> bool:
        """Return whether there is a file."""
        return self._path is not None

    def content(self, now_s: float) -> T:
        """Return the content; checks once a second, by the loop's clock, whether the file has changed."""
        if self._path is not None and now_s - self._checked_s >= _EVERY_S:
            self._checked_s = now_s
            self._watch.look(self._load)
        return self._content

    @property
    def last(self) -> T:
        """The content as it was last read."""
        return self._content

    def _load(self) -> str:
        self._content = self._read()
        return f"it now has {len(self._content)} {self._what}"

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
