"""Places that many share: whoever comes takes some, and always leaves some for others."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: Whom the present request is of: a user, or an address where nobody signs in. None is another worker, or this one.
WHO: Final[ContextVar[Hashable]] = ContextVar("who", default=None)


class NoPlace(Exception):
    """There is no place left, or none for this one."""


class Places:
    """A number of places, of which nobody gets another one while they have as many as are free.

    So one alone can have half of them, and however many have taken all that they can, there is as much left for the
    next one as each of them has.
    """

    def __init__(self, most: int) -> None:
        """Have `most` places, all of them free."""
        self._most, self._taken = most, Counter[Hashable]()
        self._free = most

    def take(self, who: Hashable, number: int = 1) -> bool:
        """Take places; returns whether there were so many. None has no share: what it asks for has been judged."""
        if (0 if who is None else self._taken[who]) + number > self._free:
            return False
        self._taken[who] += number
        self._free -= number
        return True

    def leave(self, who: Hashable, number: int = 1) -> None:
        """Give places back."""
        self._taken[who] -= number
        self._free += number
        if self._taken[who] <= 0:
            del self._taken[who]

    @contextmanager
    def one(self, who: Hashable) -> Iterator[None]:
        """Have a place for as long as something takes. Raises NoPlace."""
        if not self.take(who):
            raise NoPlace
        try:
            yield
        finally:
            self.leave(who)

    def held(self, who: Hashable) -> int:
        """Return how many places somebody has."""
        return self._taken[who]

    def __len__(self) -> int:
        """Return how many places are taken."""
        return self._most - self._free
