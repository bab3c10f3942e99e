"""How long one destination may hold up a transaction in which others are too."""

import asyncio
import contextlib
from collections.abc import Iterator

#: At least so long, or so many times what our own topics took lately and how far that varied (as RFC 6298 has it for
#: acknowledgements), up to a longest time.
_LEAST_S, _TIMES, _MOST_S = 0.15, 4, 2.0
_SMOOTHING = 0.1


class AdaptiveTimeout:
    """How long a destination is waited for: longer while our own topics are slow, for then it is not alone in that."""

    def __init__(self) -> None:
        """Know nothing of our topics."""
        self._usual_s = self._deviation_s = 0.0

    @property
    def limit_s(self) -> float:
        """How long the next one is waited for; then it leaves the transaction, and is tried again later."""
        return min(_MOST_S, max(_LEAST_S, _TIMES * (self._usual_s + self._deviation_s)))

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure how long our own topics take to take something."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        yield
        off_s = loop.time() - began - self._usual_s
        self._usual_s += off_s * _SMOOTHING
        self._deviation_s += (abs(off_s) - self._deviation_s) * _SMOOTHING
