"""What one destination may get from this worker now, by its rate and this worker's slots."""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from punctual.contract.rate import Rate

#: A slot that is not used within that time is lost, but for a burst: what comes later must not come all at once.
_KEPT_S = 0.2
#: A slot of a slow rate may be used up to half the time until the next one: the worker may be busy when it begins.
_HALF = 0.5
#: What arrives in ten seconds may be so much above the rate: what an outage has held up for a while would come at once,
#: beside what comes then.
_ABOVE = 1.03
#: What has arrived is counted over so long.
SPAN_MS = 10_000
#: RecentArrivals so close together are counted as one.
_STEP_MS = 100


class Slots:
    """Moments at which a destination may get a message, dealt out to partitions: no two workers have the same.

    A rate of r a second has a slot each 1/r seconds, numbered since 1970 in the brokers' time. Slot n is partition
    `n % P`'s, and a worker has the slots of the partitions that it owns. So the workers of an installation never have
    more than the rate together, whoever starts, ends or gets partitions, and without exchanging a message.
    """

    def __init__(self, partitions: int) -> None:
        """Own none, of an installation with so many partitions."""
        self._all = partitions
        self._own: list[int] = []

    def own(self, partitions: Iterable[int]) -> None:
        """Own the slots of these partitions from now on."""
        self._own = sorted(partitions)

    @property
    def share(self) -> float:
        """The part of all slots that is this worker's."""
        return len(self._own) / self._all

    def between(self, begin: int, end: int) -> int:
        """Return how many of the slots from `begin` to before `end` are this worker's."""
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
    """How many messages have arrived in the last ten seconds, by what was sent and what is on its way. Times are ms."""

    def __init__(self, now_ms: float) -> None:
        """Begin with none."""
        self._total = 0.0
        #: Sums of all arrivals at some times, the oldest of which is at least ten seconds ago or the beginning.
        self._sums = deque([(now_ms, 0.0)])

    def note(self, now_ms: float, total: float) -> None:
        """Note that `total` have arrived in all."""
        self._total = total
        sums = self._sums
        if now_ms - sums[-1][0] >= _STEP_MS:
            sums.append((now_ms, total))
        while len(sums) > 1 and sums[1][0] <= now_ms - SPAN_MS:
            sums.popleft()

    @property
    def lately(self) -> float:
        """How many have arrived in the last ten seconds; some more, rather than less."""
        return self._total - self._sums[0][1]

    def scale(self, part: float) -> None:
        """Count only a part of what has arrived so far: the rest is somebody else's from now on."""
        total = self._total
        self._sums = deque((at_ms, total - (total - one) * part) for at_ms, one in self._sums)


class Allowance:
    """Counts slots and what was sent, from when it is made. Times are milliseconds of a clock that all workers share.

    In any ten seconds, all workers together let through 1.03 times the rate, and the burst; or one message more each,
    for messages are whole.
    """

    def __init__(self, rate: Rate, slots: Slots, now_ms: float) -> None:
        """Begin with nothing allowed: what a worker before this one has left is not known."""
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
        """Add the slots that have begun since the last time; those that are too old are lost."""
        begun = self._begun(now_ms)
        if begun > self._seen:
            self._left += self._slots.between(self._seen, begun)
            self._seen = begun
        self._left = min(self._left, self._slots.between(self._begun(now_ms - self._kept_ms), begun))

    def room(self, now_ms: float, on_their_way: int) -> int:
        """Return how many messages may be sent now, `on_their_way` of which are not acknowledged yet."""
        self.refill(now_ms)
        self.used_ms = now_ms
        share, self._share = self._share, self._slots.share
        if self._share < share:
            self._arrivals.scale(self._share / share)
        self._arrivals.note(now_ms, self._sent - on_their_way)
        most = (self.rate.per_s * _ABOVE * SPAN_MS / 1000 + self.rate.burst) * self._share + 1
        return min(self._left, math.floor(most - self._arrivals.lately) - on_their_way)

    def spend(self) -> None:
        """Note that a message is sent."""
        self._left -= 1
        self._sent += 1

    def until_ms(self, now_ms: float) -> float:
        """Return in how many milliseconds this worker's next slot begins."""
        following = self._slots.following(self._begun(now_ms))
        return math.inf if following is None else max(0.0, (following + 1) * 1000 / self.rate.per_s - now_ms)
