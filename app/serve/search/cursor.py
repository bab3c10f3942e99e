"""A cursor of paging: a place in the order of all messages, and the places of partitions that were missing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, Self

import msgspec

from app.serve.search.scan import Place

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
    runs = groupby(enumerate(sorted(numbers)), lambda one: one[1] - one[0])
    found = [[number for _, number in run] for _, run in runs]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def numbers(text: str) -> list[int]:
    """Read the output of `written`. Raises ValueError."""
    found: list[int] = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        if not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in (first, last or first)):
            msg = f"{run[:64]!r} is not part of a cursor. Use `next` or `missed` of a response"
            raise ValueError(msg)
        if int(last or first) - int(first) > _LONGEST:
            msg = f"{run[:64]!r} names more partitions than possible"
            raise ValueError(msg)
        found += range(int(first), int(last or first) + 1)
    return found
