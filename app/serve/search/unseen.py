"""How many messages there may be where nobody has looked: what hours have beyond what was seen, spread evenly."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from app.serve.search.spans import HOUR_MS

Stretch = tuple[int, int]


class Unseen:
    """What is left of hours, by the counters, for the time in them that was not looked at."""

    def __init__(
        self, hour: Callable[[int], int], seen: Iterable[tuple[int, int, int]], missed: Sequence[Stretch]
    ) -> None:
        """Take how many there are in an hour, how many were seen in which stretches, and where nobody has looked."""
        self._hour, self._missed = hour, missed
        self._seen, self._looked_ms = Counter[int](), Counter[int]()
        for since, until, number in seen:
            self._seen[since // HOUR_MS] += number
            for at, begin, end in _hours(since, until):
                self._looked_ms[at] += end - begin - self._missed_ms(begin, end)

    def about(self, since: int, until: int) -> int:
        """Return about how many there are that nobody has seen, between two times."""
        found = 0.0
        for at, begin, end in _hours(since, until):
            missed_ms = self._missed_ms(begin, end)
            if missed_ms:
                left = max(0, self._hour(at) - self._seen[at])
                found += left * missed_ms / (HOUR_MS - self._looked_ms[at])
        return round(found)

    def _missed_ms(self, since: int, until: int) -> int:
        return sum(max(0, min(until, end) - max(since, begin)) for begin, end in self._missed)


def _hours(since: int, until: int) -> Iterator[tuple[int, int, int]]:
    """Cut a stretch at full hours."""
    while since < until:
        end = min(until, since - since % HOUR_MS + HOUR_MS)
        yield since // HOUR_MS, since, end
        since = end
