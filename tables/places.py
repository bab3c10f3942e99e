"""Where rows count and which ids they have, many at a time: what the kernel does (tables/compiled.py), in Python."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from tables import keys
from tables.entry import Entry
from tables.near_counts import MINUTE_MS


class _Names(msgspec.Struct, array_like=True, gc=False):
    """The names in a row: with these two first, the rest of it is passed over."""

    id: str
    to: str


_names = msgspec.msgpack.Decoder(_Names).decode
_HOUR_MS, _ID = keys.BUCKET_MS, keys.ID


def places(rows: Mapping[bytes, bytes | Entry], near_end: bytes) -> tuple[list[bytes], list[tuple[str, int, int]]]:
    """Return the keys of the ids of rows, and how many rows go to each topic by minute, from `near_end` on by hour.

    An hour is less than 0 (tables/counts.py). None may be a callback, or replaced.
    """
    named = [_names(memoryview(row)[1:]) if isinstance(row, bytes) else row for row in rows.values()]
    ids = [_ID + one.id.encode() for one in named]
    units = [
        due_ms // MINUTE_MS if key < near_end else -1 - due_ms // _HOUR_MS
        for key, due_ms in zip(rows, keys.dues_of(rows), strict=True)
    ]
    counted = Counter(zip([one.to for one in named], units, strict=True))
    return ids, [(to, unit, number) for (to, unit), number in counted.items()]
