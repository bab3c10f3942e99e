"""Counts by due time: totals by hour, counts by a scan, and an estimate of the messages that were not scanned."""

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
    """The number of messages due from `from_ms` on and before `to_ms`, and by destination as far as they were scanned.

    If `exact` is false, `total` is a lower bound, and `unseen` estimates the rest by spreading each hour's count
    evenly.
    """

    from_ms: int
    to_ms: int
    total: int = 0
    exact: bool = True
    unseen: int = 0
    by: dict[str, int] = {}


class HourlyCounts:
    """The number of messages due in whole hours, from the counters."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        """Use `counts` by hour of the epoch."""
        self._hours = sorted(counts)
        self._sums = [0, *accumulate(counts[hour] for hour in self._hours)]

    @property
    def first_ms(self) -> int | None:
        """The beginning of the first hour with messages."""
        return self._hours[0] * HOUR_MS if self._hours else None

    def any(self, since: int, until: int) -> bool:
        """Return whether a range may have messages; its first and last hour need not be whole."""
        place = bisect_left(self._hours, since // HOUR_MS)
        return place < len(self._hours) and self._hours[place] * HOUR_MS < until

    def count(self, since: int, until: int) -> int:
        """Return the number of messages due in a range of whole hours."""
        first, last = (bisect_left(self._hours, -(-time_ms // HOUR_MS)) for time_ms in (since, until))
        return self._sums[last] - self._sums[first]


class UnseenEstimate:
    """Spreads the rest of each hour's count over the time in it that was not scanned."""

    def __init__(
        self, hour: Callable[[int], int], seen: Iterable[tuple[int, int, int]], missed: Sequence[Stretch]
    ) -> None:
        """Use the count of each `hour`, the ranges with their number of `seen` messages, and the `missed` ranges."""
        self._hour, self._missed = hour, missed
        self._seen, self._looked_ms = Counter[int](), Counter[int]()
        for since, until, number in seen:
            self._seen[since // HOUR_MS] += number
            for at, begin, end in _hours(since, until):
                self._looked_ms[at] += end - begin - self._missed_ms(begin, end)

    def about(self, since: int, until: int) -> int:
        """Return an estimate of the messages between two times that were not scanned."""
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
    """Yield the parts of a range, cut at full hours, each with its hour."""
    while since < until:
        end = min(until, since - since % HOUR_MS + HOUR_MS)
        yield since // HOUR_MS, since, end
        since = end


class ScannedCounts:
    """The messages that a scan counted, by atom."""

    def __init__(self, atoms: list[int]) -> None:
        """Begin without counts and without missed ranges."""
        self._atoms = atoms
        self._by: dict[int, Mapping[str, int]] = {}
        self._missed: list[tuple[int, int]] = []
        #: The due time of the first message that was scanned.
        self.first_ms: int | None = None

    @property
    def complete(self) -> bool:
        """Whether all ranges were scanned."""
        return not self._missed

    def steps(self, since: int, until: int) -> list[int]:
        """Return the edges of the atoms in a range."""
        return [since, *(atom for atom in self._atoms if since < atom < until), until]

    def missed(self, since: int, until: int) -> None:
        """Record that a range was not scanned."""
        self._missed.append((since, until))

    def add(self, since: int, until: int, steps: list[int], found: ScanResult) -> None:
        """Add the result of a scan of a range."""
        self._by.update(zip(steps, found.by_step, strict=False))
        self.first_ms = min((ms for ms in (self.first_ms, found.first_ms) if ms is not None), default=None)
        if not found.complete:
            self.missed(max(since, keys.due_of(found.up_to.key)), until)

    def buckets(self, spans: TimelineSpans, hours: HourlyCounts | None) -> list[Bucket]:
        """Return the counts by span: the counters' totals for whole hours, if `hours` is given, else scanned counts."""
        found = [Bucket(from_ms=a, to_ms=b) for a, b in pairwise(spans.edges)]
        place, by, unseen = 0, Counter[str](), self._unseen(hours)
        for since, until in pairwise(self._atoms):
            if since >= found[place].to_ms:
                found[place].by, by, place = dict(by), Counter(), place + 1
            seen = self._by.get(since, {})
            by.update(seen)
            total = sum(seen.values())
            if hours is not None and whole_hours(since, until):
                # Messages that arrived during the scan are not in the counters yet.
                total = max(total, hours.count(since, until))
            elif any(since < end and begin < until for begin, end in self._missed):
                found[place].exact = False
                found[place].unseen += 0 if unseen is None else unseen.about(since, until)
            found[place].total += total
        found[place].by = dict(by)
        return found

    def _unseen(self, hours: HourlyCounts | None) -> UnseenEstimate | None:
        if hours is None:  # the counters are not by namespace
            return None
        pieces = [(since, until) for since, until in pairwise(self._atoms) if not whole_hours(since, until)]
        return UnseenEstimate(
            lambda hour: hours.count(hour * HOUR_MS, (hour + 1) * HOUR_MS),
            [(since, until, sum(self._by.get(since, {}).values())) for since, until in pieces],
            self._missed,
        )
