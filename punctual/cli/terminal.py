"""A command's output: data to stdout, everything else to stderr, colour only on a terminal."""

import os
import sys
import unicodedata
from typing import Final, Literal

Style = Literal["bold", "dim", "red", "green", "yellow"]

_CODES: Final[dict[Style, str]] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def write(text: str) -> None:
    """Write a line of data to stdout."""
    sys.stdout.write(f"{text}\n")


def say(text: str) -> None:
    """Write a message to stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"{legible_lines(text)}\n")
    sys.stderr.flush()


def is_watched() -> bool:
    """Return whether stderr is a terminal, so that a user is likely to wait."""
    return sys.stderr.isatty()


def can_ask() -> bool:
    """Return whether a user can be asked: stdin and stderr are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and is_watched()


def styled(text: str, style: Style) -> str:
    """Return text for stdout in a style, or unchanged without a terminal or with NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def legible(text: str) -> str:
    """Return text in which characters that could control the terminal are escaped."""
    if text.isprintable():
        return text
    return text.translate({ord(char): _escaped(char) for char in set(text) if not _is_shown(char)})


def state_line(name: str, sentence: str) -> str:
    """Return a name with its new state after an action: `orders: paused`."""
    return f"{legible(name)}: {legible(sentence[:1].lower() + sentence[1:].removesuffix('.'))}"


def legible_lines(text: str) -> str:
    """Return lines in which characters that could control the terminal are escaped."""
    return "\n".join(map(legible, text.split("\n")))


def legible_json(text: str) -> str:
    """Return equivalent JSON in which characters that could control the terminal are escaped.

    Control characters and marks of the writing direction can only be in strings, where JSON has escapes.
    """
    if text.isprintable():
        return text
    hidden = {char for char in set(text) - {"\n"} if not _is_shown(char)}
    return text.translate({ord(char): _escaped_in_json(char) for char in hidden})


def _escaped_in_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _is_shown(char: str) -> bool:
    return char == " " or unicodedata.category(char)[0] not in "CZ"


def show_bytes(raw: bytes) -> None:
    """Write bytes unchanged, but escaped on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        write(legible_lines(raw.decode(errors="backslashreplace")))
    else:
        sys.stdout.buffer.write(raw)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()
