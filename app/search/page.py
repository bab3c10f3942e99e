"""What a search answers: a page of all workers' rows in one order, and what is missing from it."""

import msgspec

from app.search.peers import Missing
from app.search.row import Row
from app.search.scan import END, Place
from app.search.weight import first
from tables import keys


class Part(msgspec.Struct, kw_only=True):
    """What one worker has found in the partitions that it serves; `up_to` is a cursor, as in Found."""

    partitions: list[int]
    rows: list[Row] = []
    matching: int = 0
    looked_at: int = 0
    up_to: str = ""
    by_step: list[dict[str, int]] = []


class Page(msgspec.Struct, kw_only=True):
    """Rows by due time, then arrival. `next` is the cursor of the next page; null at the end.

    Of everything due before `looked_to_ms` it is known whether it matches; null stands for all there is. `missing` has
    the partitions that nothing is known of.
    """

    rows: list[Row]
    next: str | None
    looked_at: int
    looked_to_ms: int | None
    complete: bool
    missing: list[Missing]


class Count(msgspec.Struct, kw_only=True):
    """How many match; at least so many if it is not `complete`: then there was no time, or partitions are missing."""

    matching: int
    looked_at: int
    complete: bool
    missing: list[Missing]


def page_of(parts: list[Part], missing: list[Missing], limit: int) -> Page:
    """Return the first rows of all parts, none of them beyond the place up to which every part has looked.

    They are at most `limit`, and as many as an answer has room for.
    """
    up_to = _reached(parts)
    rows = sorted((row for part in parts for row in part.rows), key=_place)
    rows = [row for row in rows if _place(row) <= up_to]
    shown = list(first(rows, limit))
    if len(shown) < len(rows):
        up_to = _place(shown[-1])
    return Page(
        rows=shown,
        next=None if up_to >= END else up_to.text(),
        looked_at=sum(part.looked_at for part in parts),
        looked_to_ms=None if up_to >= END else keys.due_of(up_to.key),
        complete=up_to >= END and not missing,
        missing=missing,
    )


def count_of(parts: list[Part], missing: list[Missing]) -> Count:
    """Return the sum of what the parts have counted."""
    return Count(
        matching=sum(part.matching for part in parts),
        looked_at=sum(part.looked_at for part in parts),
        complete=_reached(parts) >= END and not missing,
        missing=missing,
    )


def _reached(parts: list[Part]) -> Place:
    return min((Place.parse(part.up_to) for part in parts), default=END)


def _place(row: Row) -> Place:
    return Place(bytes.fromhex(row.row), row.partition)
