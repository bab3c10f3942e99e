"""The spans of a timeline, and counts by due time: totals by hour, counts by a scan, and an estimate of the rest."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, Self

import msgspec

from app.serve.search.scan import ScanResult
from tables import keys

Stretch = tuple[int, int]
MINUTE_MS, HOUR_MS = 60_000, keys.BUCKET_MS
#: The maximum number of spans, and the number if no step is given.
MOST_SPANS, DEFAULT_SPANS = 500, 120
_MINUTES, _HOURS, _LAST_HOURS = 60, 24, 1 << 25
_STEPS_MS: Final = [
    number * unit
    for unit, numbers in ((1, (1, 10, 100)), (1_000, (1, 5, 15)), (60_000, (1, 5, 15)), (HOUR_MS, (1, 6, 24, 168)))
    for number in numbers
]


class TimelineSpans(msgspec.Struct, frozen=True):
    """Consecutive spans between these times (epoch ms), and the minute of the request."""

    edges: list[int]
    at_ms: int

    @classmethod
    def default(cls, now_ms: int) -> Self:
        """Return the late span, minutes up to a full hour at least an hour away, a day of hours, and growing steps."""
        at_ms = now_ms - now_ms % MINUTE_MS
        hour = -(-(at_ms + _MINUTES * MINUTE_MS) // HOUR_MS) * HOUR_MS
        edges = [0, *range(at_ms, hour, MINUTE_MS), *(hour + number * HOUR_MS for number in range(_HOURS))]
        hours, last = _HOURS, hour + _HOURS * HOUR_MS
        while hours <= _LAST_HOURS:
            edges.append(last)
            last, hours = last + hours * HOUR_MS, hours * 2
        return cls([*edges, keys.MAX_DUE_MS + 1], at_ms)

    @classmethod
    def between(cls, from_ms: int, to_ms: int, step_ms: int | None, now_ms: int) -> Self:
        """Return spans of one length: `step_ms`, or the smallest round length with at most DEFAULT_SPANS spans.

        Raises ValueError with a sentence if the times or the step are invalid.
        """
        to_ms = min(to_ms, keys.MAX_DUE_MS + 1)
        if from_ms >= to_ms:
            raise ValueError(f"from={from_ms} must be before to={to_ms}")
        length = to_ms - from_ms
        if step_ms is None:
            step_ms = next((step for step in _STEPS_MS if step * DEFAULT_SPANS >= length), -(-length // DEFAULT_SPANS))
        if step_ms < 1 or length > step_ms * MOST_SPANS:
            sentence = f"step={step_ms} must divide {length} ms into at most {MOST_SPANS} steps. Use at least"
            raise ValueError(f"{sentence} {-(-length // MOST_SPANS)}")
        return cls([*range(from_ms, to_ms, step_ms), to_ms], now_ms - now_ms % MINUTE_MS)

    @property
    def atoms(self) -> list[int]:
        """The edges, and the edges of the whole hours within each span: counts between two atoms have one source."""
        times = set(self.edges)
        for since, until in pairwise(self.edges):
            first, last = -(-since // HOUR_MS) * HOUR_MS, until // HOUR_MS * HOUR_MS
            if first < last:
                times |= {first, last}
        return sorted(times)


def whole_hours(since: int, until: int) -> bool:
    """Return whether the hourly counters have the exact count of a span between atoms."""
    return since % HOUR_MS == 0 and (until % HOUR_MS == 0 or until > keys.MAX_DUE_MS)


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
        estimate = 0.0
        for at, begin, end in _hours(since, until):
            missed_ms = self._missed_ms(begin, end)
            if missed_ms:
                left = max(0, self._hour(at) - self._seen[at])
                estimate += left * missed_ms / (HOUR_MS - self._looked_ms[at])
        return round(estimate)

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
        self._atoms = atoms
        self._by: dict[int, Mapping[str, int]] = {}
        #: The ranges that were not scanned.
        self.missed: list[Stretch] = []
        #: The due time of the first message that was scanned.
        self.first_ms: int | None = None

    def steps(self, since: int, until: int) -> list[int]:
        """Return the edges of the atoms in a range."""
        return [since, *(atom for atom in self._atoms if since < atom < until), until]

    def add(self, since: int, until: int, steps: list[int], result: ScanResult) -> None:
        """Add the result of a scan of a range."""
        self._by.update(zip(steps, result.by_step, strict=False))
        self.first_ms = min((ms for ms in (self.first_ms, result.first_ms) if ms is not None), default=None)
        if not result.complete:
            self.missed.append((max(since, keys.due_of(result.up_to.key)), until))

    def buckets(self, spans: TimelineSpans, hours: HourlyCounts | None) -> list[Bucket]:
        """Return the counts by span: the counters' totals for whole hours, if `hours` is given, else scanned counts."""
        buckets = [Bucket(from_ms=a, to_ms=b) for a, b in pairwise(spans.edges)]
        place, by, unseen = 0, Counter[str](), self._unseen(hours)
        for since, until in pairwise(self._atoms):
            if since >= buckets[place].to_ms:
                buckets[place].by, by, place = dict(by), Counter(), place + 1
            seen = self._by.get(since, {})
            by.update(seen)
            total = sum(seen.values())
            if hours is not None and whole_hours(since, until):
                # Messages that arrived during the scan are not in the counters yet.
                total = max(total, hours.count(since, until))
            elif any(since < end and begin < until for begin, end in self.missed):
                buckets[place].exact = False
                buckets[place].unseen += 0 if unseen is None else unseen.about(since, until)
            buckets[place].total += total
        buckets[place].by = dict(by)
        return buckets

    def _unseen(self, hours: HourlyCounts | None) -> UnseenEstimate | None:
        if hours is None:  # the counters are not by namespace
            return None
        pieces = [(since, until) for since, until in pairwise(self._atoms) if not whole_hours(since, until)]
        return UnseenEstimate(
            lambda hour: hours.count(hour * HOUR_MS, (hour + 1) * HOUR_MS),
            [(since, until, sum(self._by.get(since, {}).values())) for since, until in pieces],
            self.missed,
        )
