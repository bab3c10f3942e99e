"""The file of secrets to sign with: which secrets which URLs are signed with; read again when it changes."""

from app.base.http import signatures
from app.base.http.allow_list import Pattern
from app.base.http.target import UrlTarget
from app.base.watched_file import Line, WatchedFile

_ANY = "*"

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
        self._file = WatchedFile("DELAY_HTTP_SECRETS_FILE", path, _lines, "lines are used")

    def of(self, target: UrlTarget, now_s: float) -> tuple[bytes, ...]:
        """Return the secrets for a URL; looks, once a second by the loop's clock, whether the file has changed."""
        lines = self._file.content(now_s)
        return next((secrets for pattern, secrets in lines if pattern is None or pattern.admits(target)), ())


def _lines(lines: list[Line]) -> list[_Line]:
    return [_line(number, line) for number, line in lines]


def _line(number: int, line: str) -> _Line:
    text, *secrets = line.split()
    if text != _ANY and not text.startswith(("https://", "http://")):
        raise ValueError(f"line {number} must begin with a pattern of https:// or http:// addresses")
    if not secrets:
        raise ValueError(f"line {number} has no secret. Write a pattern and one or more secrets")
    try:
        return None if text == _ANY else Pattern.of(text), tuple(map(signatures.secret, secrets))
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
