"""As much of many names as a record has room for, so that no record outgrows its topic's limit."""

import heapq
from collections.abc import Mapping
from operator import itemgetter

#: Names may have 249 characters, and every partition tells them every second: this is enough for most installations,
#: and 16 partitions that are full of long names write a quarter of a MiB a second.
NAMES, BYTES = 100, 8 * 1024
#: A number, quotes, a colon and a comma.
_BESIDE = 24


def largest(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the names with the largest numbers, as far as there is room."""
    return _fitting(heapq.nlargest(NAMES, ((name, of) for name, of in numbers.items() if name), key=itemgetter(1)))


def smallest(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the names with the smallest numbers, as far as there is room."""
    return _fitting(heapq.nsmallest(NAMES, ((name, of) for name, of in numbers.items() if name), key=itemgetter(1)))


def _fitting(pairs: list[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    left = BYTES
    for name, number in pairs:
        left -= len(name.encode()) + _BESIDE
        if left < 0:
            break
        found[name] = number
    return found
