"""What is known of due times: totals by hour, counts by a scan, and an estimate of what was not scanned."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec

from app.serve.search.scan import ScanResult
from app.serve.search.timeline_spans import HOUR_MS, TimelineSpans, whole_hours
from tables import keys

Stretch = tuple[int, int]


class Bucket(msgspec.Struct, kw_only=True):
    """How many messages are due from `from_ms` on and before `to_ms`, and by destination as far as was looked.

    There are at least so many in all if `exact` is false, and `unseen` more if the hour's are spread evenly.
    """

    from_ms: int
    to_ms: int
    total: int = 0
    exact: bool = True
    unseen: int = 0
    by: dict[str, int] = {}


class HourlyCounts:
    """How many messages are due in whole hours, by the counters."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        """Take counts by hour of the epoch."""
        self._hours = sorted(counts)
        self._sums = [0, *accumulate(counts[hour] for hour in self._hours)]

    @property
    def first_ms(self) -> int | None:
        """When the first of them begins."""
        return self._hours[0] * HOUR_MS if self._hours else None

    def any(self, since: int, until: int) -> bool:
        """Return whether there may be something in a stretch, whose first and last hour need not be whole."""
        place = bisect_left(self._hours, since // HOUR_MS)
        return place < len(self._hours) and self._hours[place] * HOUR_MS < until

    def count(self, since: int, until: int) -> int:
        """Return how many are due in a stretch of whole hours."""
        first, last = (bisect_left(self._hours, -(-time_ms // HOUR_MS)) for time_ms in (since, until))
        return self._sums[last] - self._sums[first]


class UnseenEstimate:
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


class ScannedCounts:
    """What was seen of the rows, atom by atom."""

    def __init__(self, atoms: list[int]) -> None:
        """Have seen nothing, and missed nothing."""
        self._atoms = atoms
        self._by: dict[int, Mapping[str, int]] = {}
        self._missed: list[tuple[int, int]] = []
        #: When the first of what was seen is due.
        self.first_ms: int | None = None

    @property
    def complete(self) -> bool:
        """Whether everything was looked at."""
        return not self._missed

    def steps(self, since: int, until: int) -> list[int]:
        """Return the edges of the atoms in a stretch."""
        return [since, *(atom for atom in self._atoms if since < atom < until), until]

    def missed(self, since: int, until: int) -> None:
        """Note that a stretch was not looked at."""
        self._missed.append((since, until))

    def add(self, since: int, until: int, steps: list[int], found: ScanResult) -> None:
        """Take what a scan has found in a stretch."""
        self._by.update(zip(steps, found.by_step, strict=False))
        self.first_ms = min((ms for ms in (self.first_ms, found.first_ms) if ms is not None), default=None)
        if not found.complete:
            self.missed(max(since, keys.due_of(found.up_to.key)), until)

    def buckets(self, spans: TimelineSpans, hours: HourlyCounts | None) -> list[Bucket]:
        """Return what it comes to by span: the counters' totals for whole hours, if they tell, else what was seen."""
        found = [Bucket(from_ms=a, to_ms=b) for a, b in pairwise(spans.edges)]
        place, by, unseen = 0, Counter[str](), self._unseen(hours)
        for since, until in pairwise(self._atoms):
            if since >= found[place].to_ms:
                found[place].by, by, place = dict(by), Counter(), place + 1
            seen = self._by.get(since, {})
            by.update(seen)
            total = sum(seen.values())
            if hours is not None and whole_hours(since, until):
                # What came while rows were looked at is not in the counters yet.
                total = max(total, hours.count(since, until))
            elif any(since < end and begin < until for begin, end in self._missed):
                found[place].exact = False
                found[place].unseen += 0 if unseen is None else unseen.about(since, until)
            found[place].total += total
        found[place].by = dict(by)
        return found

    def _unseen(self, hours: HourlyCounts | None) -> UnseenEstimate | None:
        if hours is None:  # what the counters have is not of some namespaces alone
            return None
        pieces = [(since, until) for since, until in pairwise(self._atoms) if not whole_hours(since, until)]
        return UnseenEstimate(
            lambda hour: hours.count(hour * HOUR_MS, (hour + 1) * HOUR_MS),
            [(since, until, sum(self._by.get(since, {}).values())) for since, until in pieces],
            self._missed,
        )
