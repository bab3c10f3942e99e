"""Scans pending messages in the order of their due times, within limits, and returns how far it came."""

import bisect
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from app.base.clock import Clock
from app.serve.search.filter import Filter
from app.serve.search.pending import MAX_BYTES, SHOWN, PendingMessage, pending
from tables import keys
from tables.counts import display_name
from tables.entry import decode, may_recur

#: The number of rows between two checks of the clock, and two rests: about half a millisecond.
_STRIDE: Final = 512
#: Kafka counts partitions in 31 bits; larger numbers cannot be sent to the scanner.
_PARTITIONS: Final = 1 << 31

Rows = Iterator[tuple[bytes, int, bytes]]


class Place(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A place among all messages: after the row with this key in this partition, and before the next row."""

    key: bytes = b""
    partition: int = -1

    def passed(self, key: bytes, partition: int) -> bool:
        """Return whether a row is at or before this place."""
        return (key, partition) <= (self.key, self.partition)

    def text(self) -> str:
        """Return the place as a cursor that URLs can have."""
        return f"{self.key.hex()}.{self.partition}"

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Read a cursor. Raises ValueError if it is invalid."""
        key, dot, partition = text.partition(".")
        if dot and len(text) <= 2 * keys.ROW_SIZE + 8:
            place = cls(bytes.fromhex(key), int(partition))
            if -1 <= place.partition < _PARTITIONS:
                return place
        raise ValueError(f"{text[:64]!r} is not a cursor. Use `next` of a response")


END: Final = Place(keys.ROWS_END)


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A pending message, and its place in the order of all messages: due time, then arrival."""

    place: Place
    message: PendingMessage


class ScanQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The filter and limits of a scan: at most `limit` matches, `rows` scanned, `ms` of time.

    It ends early if the matches fill a response. With `count` matches are only counted; with `steps` they are counted
    by destination between these times (epoch ms). `most` bytes of each value are returned, None for all.
    """

    filter: Filter = Filter()
    after: Place = Place()
    limit: int = 50
    rows: int = 1_000_000
    ms: int = 2_000
    most: int | None = SHOWN
    count: bool = False
    steps: list[int] = []


class ScanResult(msgspec.Struct, kw_only=True):
    """The result of a scan: all rows before `up_to` were scanned, which is END if no rows are left.

    `first_ms` is the due time of the first match.
    """

    rows: list[Row] = []
    matching: int = 0
    looked_at: int = 0
    up_to: Place = END
    first_ms: int | None = None
    by_step: list[dict[str, int]] = []

    @property
    def complete(self) -> bool:
        """Whether all rows were scanned."""
        return self.up_to >= END


def merged(parts: Iterable[tuple[int, Any]], start: bytes, end: bytes) -> Rows:
    """Yield the rows of several partitions' databases in one order: by key, then by partition."""

    def rows(number: int, database: Any) -> Rows:
        for key, raw in database.items(start, end):
            yield key, number, raw

    return heapq.merge(*(rows(number, database) for number, database in parts))


def scan(parts: Iterable[tuple[int, Any]], query: ScanQuery, rest: Callable[[], None] = lambda: None) -> ScanResult:
    """Scan rows within the filter's due times, after a place, until a limit is reached.

    `rest` is called after every _STRIDE rows.
    """
    seek = query.filter
    # In partitions with higher numbers, the key of the place has not been scanned.
    start = max(keys.row_key(seek.due_from_ms, 0, 0), query.after.key)
    result = ScanResult(by_step=[{} for _ in query.steps[1:]])
    until, needles, fits = Clock.monotonic_ms() + query.ms, seek.needles, seek.fits
    last, weighed = query.after, 0
    for key, number, raw in merged(parts, start, keys.due_bound(seek.due_to_ms)):
        if query.after.passed(key, number):
            continue
        result.looked_at += 1
        last = Place(key, number)
        if all(needle in raw for needle in needles) and (not seek.recurring or may_recur(raw)):
            entry = decode(raw)
            if fits(key, entry):
                result.matching += 1
                if result.first_ms is None:
                    result.first_ms = keys.due_of(key)
                weighed += _take(result, query, number, key, entry)
        full = not query.count and not query.steps and (len(result.rows) >= query.limit or weighed >= MAX_BYTES)
        late = False
        if result.looked_at % _STRIDE == 0:
            rest()
            late = Clock.monotonic_ms() > until
        if full or late or result.looked_at >= query.rows:
            result.up_to = last
            return result
    return result


def _take(result: ScanResult, query: ScanQuery, number: int, key: bytes, entry: Any) -> int:
    """Add a match to the result, and return the bytes that it adds to the response."""
    if query.steps:
        place = bisect.bisect_right(query.steps, keys.due_of(key)) - 1
        if 0 <= place < len(result.by_step):
            counts, name = result.by_step[place], display_name(entry.to)
            counts[name] = counts.get(name, 0) + 1
    elif not query.count:
        message = pending(number, key, entry, most=query.most)
        result.rows.append(Row(Place(key, number), message))
        return message.size
    return 0
