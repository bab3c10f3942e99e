"""Where plain rows go and when they are due, many at a time: what the kernel does (tables/compiled.py), in Python."""

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter

from app.engine.steps.route import chosen
from tables import Entry, keys
from tables.changes import Pairs
from tables.entry import decode

#: What stands for a partition that nothing chooses.
_SPREAD = -1

_first = itemgetter(0)

Rows = list[tuple[bytes, Entry]]


def route(rows: Pairs, begin: int, partitions: Mapping[str, int]) -> tuple[int, list[tuple[str, int, Rows]]]:
    """Return how many of `rows[begin:]` are plain up to the first that is not, and these by topic and partition.

    They are decoded: who sends them, and who ends them, needs that.
    """
    groups, taken = dict[tuple[str, int], Rows](), 0
    for key, raw in rows[begin:]:
        entry = decode(raw)
        to = entry.to
        if (
            entry.commands
            or entry.attempts
            or entry.max_late_ms is not None
            or entry.series is not None
            or entry.cluster is not None
            or entry.url is not None
            or entry.if_late is not None
            or entry.next_try_ms is not None
            or "/" in to
            or not partitions.get(to)
        ):
            break
        number = chosen(entry, partitions[to])
        place = to, _SPREAD if number is None else number
        group = groups.get(place)
        if group is None:
            group = groups[place] = []
        group.append((key, entry))
        taken += 1
    return taken, [(to, number, group) for (to, number), group in groups.items()]


def dues(rows: Rows) -> Iterable[tuple[int, int]]:
    """Return when rows are due, and how many at each time."""
    return Counter(keys.dues_of(map(_first, rows))).items()
