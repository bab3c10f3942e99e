"""How many messages one destination may get from this worker, by its rate limit and this worker's slots."""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from punctual.contract.rate import Rate

#: An unused slot is lost after this time unless it belongs to a burst, because slots must not be used all at once.
_KEPT_S = 0.2
#: A slot of a slow rate may be used up to half the time until the next one: the worker may be busy when it begins.
_HALF = 0.5
#: Maximum ratio of arrivals to the rate over ten seconds: messages delayed by an outage would otherwise arrive together
#: with the regular ones.
_ABOVE = 1.03
#: Period over which arrivals are counted.
SPAN_MS = 10_000
#: Arrivals within this time are counted together.
_STEP_MS = 100


class Slots:
    """Moments at which a destination may get a message, divided among partitions, so that no two workers share any.

    A rate of r per second has a slot every 1/r seconds, numbered since 1970 in the brokers' time. Slot n belongs to
    partition `n % P`, and a worker has the slots of the partitions that it owns. So all workers together never exceed
    the rate, without exchanging a message, whichever workers start, end or get partitions.
    """

    def __init__(self, partitions: int) -> None:
        """Own no slots yet, in an installation with this many `partitions`."""
        self._all = partitions
        self._own: list[int] = []

    def own(self, partitions: Iterable[int]) -> None:
        """Own the slots of `partitions` from now on."""
        self._own = sorted(partitions)

    @property
    def share(self) -> float:
        """The fraction of all slots that belongs to this worker."""
        return len(self._own) / self._all

    def between(self, begin: int, end: int) -> int:
        """Return the number of this worker's slots from `begin` to before `end`."""
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


class RecentArrivals:
    """Counts the messages that arrived in the last ten seconds, including those in flight. Times are ms."""

    def __init__(self, now_ms: float) -> None:
        """Start at `now_ms` without any arrivals."""
        self._total = 0.0
        #: Totals of arrivals at some times; the oldest time is at least ten seconds ago, or the start.
        self._sums = deque([(now_ms, 0.0)])

    def note(self, now_ms: float, total: float) -> None:
        """Note that `total` messages have arrived since the start."""
        self._total = total
        sums = self._sums
        if now_ms - sums[-1][0] >= _STEP_MS:
            sums.append((now_ms, total))
        while len(sums) > 1 and sums[1][0] <= now_ms - SPAN_MS:
            sums.popleft()

    @property
    def lately(self) -> float:
        """The number of arrivals in the last ten seconds, or slightly more."""
        return self._total - self._sums[0][1]

    def scale(self, part: float) -> None:
        """Multiply the arrivals so far by `part`: the rest now belongs to another worker."""
        total = self._total
        self._sums = deque((at_ms, total - (total - one) * part) for at_ms, one in self._sums)


class Allowance:
    """Counts slots and sent messages since its creation. Times are milliseconds of a clock that all workers share.

    In any ten seconds, all workers together send at most 1.03 times the rate plus the burst, and one message each due
    to rounding.
    """

    def __init__(self, rate: Rate, slots: Slots, now_ms: float) -> None:
        """Start with no messages allowed at `now_ms`, because the slots that a previous worker left are not known."""
        self.rate, self._slots = rate, slots
        self._kept_ms = 1000 * max(_KEPT_S, _HALF / rate.per_s, rate.burst / rate.per_s)
        self._seen, self._share = self._begun(now_ms), slots.share
        self._left = self._sent = 0
        self._arrivals = RecentArrivals(now_ms)
        self.used_ms = now_ms

    def _begun(self, now_ms: float) -> int:
        """Return how many slots have begun since 1970."""
        return math.floor(now_ms * self.rate.per_s / 1000)

    def refill(self, now_ms: float) -> None:
        """Add the slots that have begun since the last call, and drop old slots."""
        begun = self._begun(now_ms)
        if begun > self._seen:
            self._left += self._slots.between(self._seen, begun)
            self._seen = begun
        self._left = min(self._left, self._slots.between(self._begun(now_ms - self._kept_ms), begun))

    def room(self, now_ms: float, on_their_way: int) -> int:
        """Return how many messages may be sent now, if `on_their_way` messages are not acknowledged yet."""
        self.refill(now_ms)
        self.used_ms = now_ms
        share, self._share = self._share, self._slots.share
        if self._share < share:
            self._arrivals.scale(self._share / share)
        self._arrivals.note(now_ms, self._sent - on_their_way)
        most = (self.rate.per_s * _ABOVE * SPAN_MS / 1000 + self.rate.burst) * self._share + 1
        return min(self._left, math.floor(most - self._arrivals.lately) - on_their_way)

    def spend(self) -> None:
        """Count a message as sent."""
        self._left -= 1
        self._sent += 1

    def until_ms(self, now_ms: float) -> float:
        """Return the milliseconds until this worker's next slot begins."""
        following = self._slots.following(self._begun(now_ms))
        return math.inf if following is None else max(0.0, (following + 1) * 1000 / self.rate.per_s - now_ms)
