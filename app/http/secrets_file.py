"""The file of secrets to sign with: which secrets which URLs are signed with; read again when it changes."""

import logging
from pathlib import Path

from app.http import signatures
from app.http.allow_list import Pattern
from app.http.target import Target

_ANY = "*"

log = logging.getLogger(__name__)

_Line = tuple[Pattern | None, tuple[bytes, ...]]


class SecretsFile:
    """Lines of a pattern and its secrets, separated by spaces: the first line whose pattern admits a URL is its own.

    Patterns are those of the allow lists, part by part, for a secret must not sign what goes to another host.
    Of a file that cannot be read any more, what was read last holds.
    """

    def __init__(self, path: str) -> None:
        """Read the file at `path`; an empty path is no file.

        Raises ValueError, which says what is wrong and names a line, never a secret.
        """
        self._path = Path(path) if path else None
        self._seen, self._lines = self._state(), self._read()
        self._checked_s = float("-inf")

    def of(self, target: Target, now_s: float) -> tuple[bytes, ...]:
        """Return the secrets for a URL; looks, once a second by the loop's clock, whether the file has changed."""
        if self._path is not None and now_s - self._checked_s >= 1:
            self._checked_s = now_s
            self._look()
        fitting = (secrets for pattern, secrets in self._lines if pattern is None or pattern.admits(target))
        return next(fitting, ())

    def _look(self) -> None:
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._lines = self._read()
            log.info("DELAY_HTTP_SECRETS_FILE has changed: %d lines are used from now on", len(self._lines))
        except ValueError as error:
            log.error("DELAY_HTTP_SECRETS_FILE has changed, and is not used: %s. What it had still holds.", error)  # noqa: TRY400 - the sentence says it

    def _state(self) -> tuple[int, ...]:
        """Return what shows that the file is another one."""
        try:
            stat = self._path.stat() if self._path is not None else None
        except OSError:
            return ()
        return () if stat is None else (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _read(self) -> list[_Line]:
        if self._path is None:
            return []
        try:
            text = self._path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"it cannot be read: {why}") from error
        return [_line(number, line) for number, line in enumerate(text.splitlines(), 1) if _says(line)]


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _line(number: int, line: str) -> _Line:
    text, *secrets = line.split()
    if text != _ANY and not text.startswith(("https://", "http://")):
        raise ValueError(f"line {number} begins with no pattern of https:// or http:// addresses")
    if not secrets:
        raise ValueError(f"line {number} has no secret: a pattern and one or more secrets are needed")
    try:
        return None if text == _ANY else Pattern.of(text), tuple(map(signatures.secret, secrets))
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
