"""What one destination may get from this worker now, by its rate and this worker's slots."""

import math

from app.throttle.slots import Slots
from punctual.contract.rate import Rate

#: A slot that is not used within that time is lost, but for a burst: what comes later must not come all at once.
_KEPT_S = 0.2
#: So much may be on its way, by the rate: what an outage has held up is not to arrive beside what comes then.
_ON_ITS_WAY_S = 0.2
#: A slot of a slow rate may be used up to half the time until the next one: the worker may be busy when it begins.
_HALF = 0.5


class Allowance:
    """Counts slots and what was sent, from when it is made. Times are milliseconds of a clock that all workers share.

    In any span of t seconds, all workers together get (t + 0.2) times the rate, and the burst; or one more, for
    slots are whole.
    """

    def __init__(self, rate: Rate, slots: Slots, now_ms: float) -> None:
        """Begin with nothing allowed: what a worker before this one has left is not known."""
        self.rate, self._slots = rate, slots
        self._kept_ms = 1000 * max(_KEPT_S, _HALF / rate.per_s, rate.burst / rate.per_s)
        self._seen = self._begun(now_ms)
        self._left = 0
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
        at_once = max(_ON_ITS_WAY_S * self.rate.per_s, self.rate.burst) * self._slots.share
        return min(self._left, max(1, math.ceil(at_once)) - on_their_way)

    def spend(self) -> None:
        """Note that a message is sent."""
        self._left -= 1

    def until_ms(self, now_ms: float) -> float:
        """Return in how many milliseconds this worker's next slot begins."""
        following = self._slots.following(self._begun(now_ms))
        return math.inf if following is None else max(0.0, (following + 1) * 1000 / self.rate.per_s - now_ms)
