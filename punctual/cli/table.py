"""Output of rows: in columns for people, or as one JSON object per line for programs."""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from typing import Any, Final, NamedTuple

import msgspec

from punctual.cli.terminal import legible, legible_json, styled, write

TABLE, JSON = "table", "json"
_GAP: Final = "  "


class Column(NamedTuple):
    """A column: its title, the text for a row, and whether it has numbers."""

    title: str
    text: Callable[[Any], str]
    number: bool = False


class Table:
    """Writes rows to stdout in groups; columns keep their widths as far as possible."""

    def __init__(self, columns: Sequence[Column], form: str = TABLE) -> None:
        """Write rows as a table, or with the form `json` as one object per line."""
        self._columns, self._form = columns, form
        self._widths: list[int] = []

    def add(self, rows: Iterable[Any]) -> None:
        """Write rows."""
        if self._form == JSON:
            for row in rows:
                write_json(row)
            return
        cells = [[legible(column.text(row)) for column in self._columns] for row in rows]
        if not cells:
            return
        titles = [column.title for column in self._columns]
        began = bool(self._widths)
        known = self._widths or [len(title) for title in titles]
        columns = zip(known, zip(*cells, strict=True), strict=True)
        self._widths = [max(width, *map(_width, column)) for width, column in columns]
        if not began:
            write(styled(self._line(titles), "bold"))
        for line in cells:
            write(self._line(line))

    def _line(self, cells: list[str]) -> str:
        padded = (
            " " * (width - _width(cell)) + cell if column.number else cell + " " * (width - _width(cell))
            for cell, column, width in zip(cells, self._columns, self._widths, strict=True)
        )
        return _GAP.join(padded).rstrip()


def write_json(value: Any) -> None:
    """Write an object as a line of JSON, in UTF-8 whatever the locale is, without terminal control characters."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(encoding="utf-8")
    write(legible_json(msgspec.json.encode(value).decode()))


def _width(text: str) -> int:
    """Return the number of terminal cells of a text: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    marks = sum(unicodedata.category(char) in ("Mn", "Me") for char in text)
    return len(text) + sum(unicodedata.east_asian_width(char) in "WF" for char in text) - marks
