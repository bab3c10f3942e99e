"""A page has many rows, or large ones, and never both: all rows come page by page."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from app.serve.search.page import Cursor, SearchPart, page_of
from app.serve.search.pending import MAX_BYTES
from app.serve.search.scan import Place, ScanQuery, scan
from app.serve.search.search import MOST_ROWS
from tables.entry import encode
from tests.tables.rows import NOW, entry, key

_MIB = 1 << 20


@dataclass
class Rows:
    """A partition's database with large rows that use no disk."""

    offsets: range
    raw: bytes

    def items(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for offset in self.offsets:
            if start <= key(NOW + offset, offset) < end:
                yield key(NOW + offset, offset), self.raw


@pytest.mark.parametrize("what", ["value", "key", "headers"])
def test_a_page_has_a_maximum_size_and_the_pages_have_every_row_once(what: str) -> None:
    large = {"value": bytes(_MIB), "key": bytes(_MIB), "headers": [("h", bytes(_MIB))]}[what]
    raw = encode(msgspec.structs.replace(entry("a"), **{what: large}))
    workers = [[(0, Rows(range(0, 100, 3), raw)), (1, Rows(range(1, 100, 3), raw))], [(2, Rows(range(2, 100, 3), raw))]]
    after, seen, pages = Place(), list[str](), 0
    for pages in range(1, 100):  # noqa: B007 - how many there were
        found = [scan(parts, ScanQuery(after=after, limit=MOST_ROWS, most=None)) for parts in workers]
        for one in found:
            assert sum(row.message.size for row in one.rows) < MAX_BYTES + 2 * _MIB
        parts = [SearchPart(partitions=[], rows=one.rows, up_to=one.up_to) for one in found]
        page = page_of(parts, [], MOST_ROWS, Cursor())
        assert sum(row.size for row in page.rows) < MAX_BYTES + 2 * _MIB
        seen += [str(row.due_ms - NOW) for row in page.rows]
        if page.next is None:
            break
        after = Place.parse(page.next)
    assert seen == list(map(str, range(100)))
    assert pages == 13


def test_rows_that_are_cut_or_only_counted_have_no_size() -> None:
    parts = [(0, Rows(range(100), encode(msgspec.structs.replace(entry("a"), value=bytes(_MIB)))))]
    assert len(scan(parts, ScanQuery(limit=MOST_ROWS, most=0)).rows) == 100
    assert scan(parts, ScanQuery(count=True)).matching == 100
