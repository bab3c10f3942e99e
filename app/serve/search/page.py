"""The result of a search: a page of all workers' rows in one order, its cursor, and the partitions that are missing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

import msgspec

from app.serve.search.peers import Missing, WorkerPart
from app.serve.search.pending import MAX_BYTES, PendingMessage
from app.serve.search.scan import END, Place, Row
from app.serve.web.answers import runs_of
from tables import keys

#: URLs have at most 8 KiB, including a filter.
_LONGEST: Final = 4_096
_DIGITS: Final = 9


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """All rows up to `place` were returned, except for partitions that are `behind`, each with its own place."""

    place: Place = Place()
    behind: Mapping[int, Place] = {}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the output of `text`. Raises ValueError if it is not a cursor."""
        place, *groups = text.split("~")
        behind: dict[int, Place] = {}
        for group in groups:
            run, _, at = group.partition("@")
            behind |= dict.fromkeys(numbers(run), Place.parse(at))
        return cls(place=Place.parse(place), behind=behind)

    def text(self) -> str:
        """Return the cursor as URLs can have it.

        If many partitions are behind at many places, it is the first of these places: rows are repeated, but not lost.
        """
        groups = defaultdict[str, list[int]](list)
        for number, place in self.behind.items():
            groups[place.text()].append(number)
        text = "~".join([self.place.text(), *(f"{written(numbers)}@{at}" for at, numbers in groups.items())])
        return text if len(text) <= _LONGEST else min(self.behind.values()).text()


def written(numbers: Iterable[int]) -> str:
    """Return numbers with runs abbreviated: 0-3,7."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs_of(numbers))


def numbers(text: str) -> list[int]:
    """Read the output of `written`. Raises ValueError."""
    numbers: list[int] = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        if not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in (first, last or first)):
            raise ValueError(f"{run[:64]!r} is not part of a cursor. Use `next` or `missed` of a response")
        if int(last or first) - int(first) > _LONGEST:
            raise ValueError(f"{run[:64]!r} names more partitions than possible")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


class SearchPart(WorkerPart, kw_only=True):
    """The matches of one worker in the partitions that it serves; `up_to` is as in ScanResult."""

    rows: list[Row] = msgspec.field(default_factory=list)
    matching: int = 0
    looked_at: int = 0
    up_to: Place


class PendingPage(msgspec.Struct, kw_only=True):
    """Messages by due time, then arrival. `next` is the cursor of the next page; null at the end.

    All messages due before `looked_to_ms` were scanned; null stands for all messages. `missing` has the partitions that
    did not answer. Their rows come as soon as they answer, before other rows of later pages; at the end, `missed` is
    the cursor of partitions that have still not answered.
    """

    next: str | None
    looked_at: int
    looked_to_ms: int | None
    complete: bool
    missing: list[Missing]
    missed: str | None = None
    rows: list[PendingMessage]


class SearchCount(msgspec.Struct, kw_only=True):
    """The number of matches; a lower bound if it is not `complete`, because of time or missing partitions."""

    matching: int
    looked_at: int
    complete: bool
    missing: list[Missing]


def page_of(parts: list[SearchPart], missing: list[Missing], limit: int, cursor: Cursor) -> PendingPage:
    """Return the first rows of all parts after a cursor, up to the place that every part has reached.

    There are at most `limit` rows, and as many as fit into a response. Partitions that are behind contribute no rows.
    """
    rows, up_to = _first(parts, limit, lambda row: row.place.partition not in cursor.behind, END)
    behind = dict.fromkeys(_gone(missing), cursor.place) | dict(cursor.behind)
    return _page(rows, parts, missing, Cursor(place=up_to, behind=behind))


def late_page_of(
    parts: list[SearchPart], missing: list[Missing], limit: int, cursor: Cursor
) -> tuple[PendingPage, Cursor]:
    """Return a page of rows from partitions that were behind a cursor, and the cursor after it."""

    def is_late(row: Row) -> bool:
        return row.place.partition in cursor.behind and row.place > cursor.behind[row.place.partition]

    rows, up_to = _first(parts, limit, is_late, cursor.place)
    gone = _gone(missing)
    behind = {
        number: place if number in gone else max(place, up_to)
        for number, place in cursor.behind.items()
        if number in gone or up_to < cursor.place
    }
    after = Cursor(place=cursor.place, behind=behind)
    return _page(rows, parts, missing, after), after


def _first(parts: list[SearchPart], limit: int, fits: Callable[[Row], bool], end: Place) -> tuple[list[Row], Place]:
    """Return the first rows that fit, and the place up to which they are complete, at most `end`."""
    up_to = min([end, *(part.up_to for part in parts)])
    matches = (row for part in parts for row in part.rows if row.place <= up_to and fits(row))
    rows = sorted(matches, key=lambda row: row.place)
    size = 0
    for count, row in enumerate(rows[:limit], 1):
        size += row.message.size
        if count < len(rows) and (count == limit or size >= MAX_BYTES):
            return rows[:count], row.place
    return rows, up_to


def _page(rows: list[Row], parts: list[SearchPart], missing: list[Missing], after: Cursor) -> PendingPage:
    over = after.place >= END and set(after.behind) <= _gone(missing)
    return PendingPage(
        rows=[row.message for row in rows],
        next=None if over else after.text(),
        looked_at=sum(part.looked_at for part in parts),
        looked_to_ms=None if after.place >= END else keys.due_of(after.place.key),
        complete=over and not missing,
        missing=missing,
        missed=after.text() if over and after.behind else None,
    )


def _gone(missing: list[Missing]) -> set[int]:
    return {number for one in missing for number in one.partitions}


def count_of(parts: list[SearchPart], missing: list[Missing]) -> SearchCount:
    """Return the sum of the parts' counts."""
    return SearchCount(
        matching=sum(part.matching for part in parts),
        looked_at=sum(part.looked_at for part in parts),
        complete=not missing and all(part.up_to >= END for part in parts),
        missing=missing,
    )
