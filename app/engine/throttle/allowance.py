"""What one destination may get from this worker now, by its rate and this worker's slots."""

import math

from app.engine.throttle.arrivals import SPAN_MS, Arrivals
from app.engine.throttle.slots import Slots
from punctual.contract.rate import Rate

#: A slot that is not used within that time is lost, but for a burst: what comes later must not come all at once.
_KEPT_S = 0.2
#: A slot of a slow rate may be used up to half the time until the next one: the worker may be busy when it begins.
_HALF = 0.5
#: What arrives in ten seconds may be so much above the rate: what an outage has held up for a while would come at once,
#: beside what comes then.
_ABOVE = 1.03


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
        self._arrivals = Arrivals(now_ms)
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
