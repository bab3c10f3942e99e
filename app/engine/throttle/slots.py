"""Moments at which a destination may get a message, dealt out to partitions: no two workers have the same.

A rate of r a second has a slot each 1/r seconds, numbered since 1970 in the brokers' time. Slot n is partition
`n % P`'s, and a worker has the slots of the partitions that it owns. So the workers of an installation never have more
than the rate together, whoever starts, ends or gets partitions, and without a word between them.
"""

from bisect import bisect_left
from collections.abc import Iterable


class Slots:
    """Which slots are this worker's."""

    def __init__(self, partitions: int) -> None:
        """Own none, of an installation with so many partitions."""
        self._all = partitions
        self._own: list[int] = []

    def own(self, partitions: Iterable[int]) -> None:
        """Own the slots of these partitions from now on."""
        self._own = sorted(partitions)

    @property
    def share(self) -> float:
        """The part of all slots that is this worker's."""
        return len(self._own) / self._all

    def between(self, begin: int, end: int) -> int:
        """Return how many of the slots from `begin` to before `end` are this worker's."""
        return self._before(end) - self._before(begin)

    def following(self, begin: int) -> int | None:
        """Return this worker's first slot from `begin` on, None if it has none."""
        if not self._own:
            return None
        rounds, place = divmod(begin, self._all)
        index = bisect_left(self._own, place)
        if index == len(self._own):
            return (rounds + 1) * self._all + self._own[0]
        return rounds * self._all + self._own[index]

    def _before(self, end: int) -> int:
        rounds, place = divmod(end, self._all)
        return rounds * len(self._own) + bisect_left(self._own, place)
