"""The result of a search: a page of all workers' rows in one order, and the partitions that are missing."""

from collections.abc import Callable
from typing import Final

import msgspec

from app.serve.search.cursor import Cursor
from app.serve.search.peers import Missing
from app.serve.search.pending import PendingMessage
from app.serve.search.response_size import MAX_BYTES, size_of
from app.serve.search.scan import END, Place, Row
from tables import keys

START: Final = Cursor()


class SearchPart(msgspec.Struct, kw_only=True):
    """The matches of one worker in the partitions that it serves; `up_to` is a cursor, as in ScanResult."""

    partitions: list[int]
    rows: list[Row] = []
    matching: int = 0
    looked_at: int = 0
    up_to: str = ""
    by_step: list[dict[str, int]] = []


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


def page_of(parts: list[SearchPart], missing: list[Missing], limit: int, cursor: Cursor = START) -> PendingPage:
    """Return the first rows of all parts after a cursor, up to the place that every part has reached.

    There are at most `limit` rows, and as many as fit into a response. Partitions that are behind contribute no rows.
    """
    rows, up_to = _first(parts, limit, lambda row: row.place.partition not in cursor.behind, END)
    gone = {number for one in missing for number in one.partitions}
    behind = dict.fromkeys(gone, cursor.place) | dict(cursor.behind)
    return _page(rows, parts, missing, Cursor(place=up_to, behind=behind))


def late_page_of(
    parts: list[SearchPart], missing: list[Missing], limit: int, cursor: Cursor
) -> tuple[PendingPage, Cursor]:
    """Return a page of rows from partitions that were behind a cursor, and the cursor after it."""

    def is_late(row: Row) -> bool:
        return row.place.partition in cursor.behind and row.place > cursor.behind[row.place.partition]

    rows, up_to = _first(parts, limit, is_late, cursor.place)
    gone = {number for one in missing for number in one.partitions}
    behind = {
        number: place if number in gone else max(place, up_to)
        for number, place in cursor.behind.items()
        if number in gone or up_to < cursor.place
    }
    after = Cursor(place=cursor.place, behind=behind)
    return _page(rows, parts, missing, after), after


def _first(parts: list[SearchPart], limit: int, fits: Callable[[Row], bool], end: Place) -> tuple[list[Row], Place]:
    """Return the first rows that fit, and the place up to which they are complete, at most `end`."""
    up_to = min(_reached(parts), end)
    matches = (row for part in parts for row in part.rows if row.place <= up_to and fits(row))
    rows = sorted(matches, key=lambda row: row.place)
    size = 0
    for count, row in enumerate(rows[:limit], 1):
        size += size_of(row.message)
        if count < len(rows) and (count == limit or size >= MAX_BYTES):
            return rows[:count], row.place
    return rows, up_to


def _page(rows: list[Row], parts: list[SearchPart], missing: list[Missing], after: Cursor) -> PendingPage:
    gone = {number for one in missing for number in one.partitions}
    over = after.place >= END and set(after.behind) <= gone
    return PendingPage(
        rows=[row.message for row in rows],
        next=None if over else after.text(),
        looked_at=sum(part.looked_at for part in parts),
        looked_to_ms=None if after.place >= END else keys.due_of(after.place.key),
        complete=over and not missing,
        missing=missing,
        missed=after.text() if over and after.behind else None,
    )


def count_of(parts: list[SearchPart], missing: list[Missing]) -> SearchCount:
    """Return the sum of the parts' counts."""
    return SearchCount(
        matching=sum(part.matching for part in parts),
        looked_at=sum(part.looked_at for part in parts),
        complete=_reached(parts) >= END and not missing,
        missing=missing,
    )


def _reached(parts: list[SearchPart]) -> Place:
    return min((Place.parse(part.up_to) for part in parts), default=END)
