"""The counters and ids of plain rows, in bulk: the table's part of the fast path."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tables import keys, native_extension
from tables.entry import Entry
from tables.near_counts import MINUTE_MS


class _Names(msgspec.Struct, array_like=True, gc=False):
    """The first two fields of a row; the decoder ignores the rest."""

    id: str
    to: str


_names = msgspec.msgpack.Decoder(_Names).decode
_HOUR_MS, _ID = keys.BUCKET_MS, keys.ID


Rows = Mapping[bytes, bytes | Entry]
Places = tuple[list[bytes], list[tuple[str, int, int]]]


def in_python(rows: Rows, near_end: bytes) -> Places:
    """Return the id keys of plain rows, and the number of rows per topic and unit of time.

    A unit is a minute; from the row key `near_end` on it is an hour, as a number less than 0 (tables/counts.py).
    """
    names = [_names(memoryview(row)[1:]) if isinstance(row, bytes) else row for row in rows.values()]
    ids = [_ID + one.id.encode() for one in names]
    units = [
        due_ms // MINUTE_MS if key < near_end else -1 - due_ms // _HOUR_MS
        for key, due_ms in zip(rows, keys.dues_of(rows), strict=True)
    ]
    counted = Counter(zip([one.to for one in names], units, strict=True))
    return ids, [(to, unit, number) for (to, unit), number in counted.items()]


_extension = native_extension.module
#: The same function in Rust, if the native extension is available.
of_rows: Final[Callable[[Rows, bytes], Places]] = in_python if _extension is None else _extension.places
