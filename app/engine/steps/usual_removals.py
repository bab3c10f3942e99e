"""Plain rows that have been delivered, many at a time: what the kernel does (tables/compiled.py), in Python."""

import itertools

from punctual.contract.events import Event, encode
from tables import Entry, keys

Found = tuple[int, list[str], list[Entry], list[tuple[bytes, bytes]]]


def delivered(
    rows: list[bytes],
    begin: int,
    end: int,
    first: int,
    claims: dict[bytes, Entry],
    where: str,
    now_ms: int,
    sent_ms: int,
    watermark_ms: int,
) -> Found:
    """Return how many of `rows[begin:end]` are plain up to the first that is not, their ids, entries, and events.

    `rows` are keys, that of `first` the offset of the first. A row that keeps anything beyond its delivery is not plain
    here: that its id was replaced or moved, or a window of its own; nor is one that commands wait for, or that recurs.
    """
    sent = rows[begin:end]
    found, told, get = dict[str, Entry](), list[tuple[bytes, bytes]](), dict.get
    for offset, key, due_ms in zip(itertools.count(first + begin), sent, keys.dues_of(sent)):
        entry = get(claims, key)  # not their own get(), which is made for more
        if (
            entry is None
            or entry.stamp_ms >= watermark_ms
            or entry.commands
            or entry.moved is not None
            or entry.dedupe_ms is not None
            or entry.asked_by is not None
            or entry.series is not None
            or entry.id in found
        ):
            break
        id_ = entry.id
        found[id_] = entry
        late_ms, place = sent_ms - due_ms, f"{where}-{offset}"
        event = Event("delivered", id_, now_ms, entry.source, due_ms, entry.to, late_ms, place)
        told.append((id_.encode(), encode(event)))
    return len(found), [*found], [*found.values()], told
