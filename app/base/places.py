"""Places shared by many clients: each client leaves some for the others."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: The client of the current request: a user, or an address without login. None is this worker, or another worker.
WHO: Final[ContextVar[Hashable]] = ContextVar("who", default=None)


class NoPlace(Exception):
    """No place is left, or none for this client."""


class Places:
    """A number of places; a client gets more only while it has fewer than are free.

    So a single client can have half of the places. After any number of clients have taken their maximum, the next one
    can have as many as each of the others.
    """

    def __init__(self, most: int) -> None:
        """Begin with `most` places, all free."""
        self._most, self._taken = most, Counter[Hashable]()
        self._free = most

    def take(self, who: Hashable, number: int = 1) -> bool:
        """Take `number` places for `who`; return whether they were available. None has no maximum of its own."""
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
        """Hold one place in a `with` block. Raises NoPlace."""
        if not self.take(who):
            raise NoPlace
        try:
            yield
        finally:
            self.leave(who)

    def held(self, who: Hashable) -> int:
        """Return the number of places that `who` has."""
        return self._taken[who]

    def __len__(self) -> int:
        """Return the number of places taken."""
        return self._most - self._free
