"""Places that many share: whoever comes takes some, and always leaves some for others."""

from collections import Counter
from collections.abc import Hashable


class Places:
    """A number of places, of which nobody gets another one while they have as many as are free.

    So one alone can have half of them, and however many have taken all that they can, there is as much left for the
    next one as each of them has.
    """

    def __init__(self, most: int) -> None:
        """Have `most` places, all of them free."""
        self._most, self._taken = most, Counter[Hashable]()
        self._free = most

    def take(self, who: Hashable) -> bool:
        """Take a place; returns whether there was one."""
        if self._taken[who] >= self._free:
            return False
        self._taken[who] += 1
        self._free -= 1
        return True

    def leave(self, who: Hashable) -> None:
        """Give a place back."""
        self._taken[who] -= 1
        self._free += 1
        if not self._taken[who]:
            del self._taken[who]

    def held(self, who: Hashable) -> int:
        """Return how many places somebody has."""
        return self._taken[who]

    def __len__(self) -> int:
        """Return how many places are taken."""
        return self._most - self._free
