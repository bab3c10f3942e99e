"""The spans of time that a timeline is divided into, and their parts that the hourly counters cover."""

from itertools import pairwise
from typing import Final, Self

import msgspec

from tables import keys

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
            msg = f"from={from_ms} must be before to={to_ms}"
            raise ValueError(msg)
        length = to_ms - from_ms
        if step_ms is None:
            step_ms = next((step for step in _STEPS_MS if step * DEFAULT_SPANS >= length), -(-length // DEFAULT_SPANS))
        if step_ms < 1 or length > step_ms * MOST_SPANS:
            shortest = -(-length // MOST_SPANS)
            msg = f"step={step_ms} must divide {length} ms into at most {MOST_SPANS} steps. Use at least {shortest}"
            raise ValueError(msg)
        return cls([*range(from_ms, to_ms, step_ms), to_ms], now_ms - now_ms % MINUTE_MS)

    @property
    def atoms(self) -> list[int]:
        """The edges, and the edges of the whole hours within each span: counts between two atoms have one source."""
        found = set(self.edges)
        for since, until in pairwise(self.edges):
            first, last = -(-since // HOUR_MS) * HOUR_MS, until // HOUR_MS * HOUR_MS
            if first < last:
                found |= {first, last}
        return sorted(found)


def whole_hours(since: int, until: int) -> bool:
    """Return whether the hourly counters have the exact count of a span between atoms."""
    return since % HOUR_MS == 0 and (until % HOUR_MS == 0 or until > keys.MAX_DUE_MS)
