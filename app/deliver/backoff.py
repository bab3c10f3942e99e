"""Ways that do not take messages now, and when each is tried again."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.partition.partition import Way

_BACKOFF_S, _BACKOFF_MAX_S = 0.25, 5.0
#: Another message is tried if nothing is heard of the first one after a failure.
_TRIAL_S = 2.0


@dataclass(eq=False)
class _Failure:
    """What keeps ways from taking messages, since when, and until when they wait."""

    since: float
    until: float = 0.0
    times: int = 0
    #: Whether a message is on its way to see if it is over.
    tried: bool = False
    ways: set[Way] = field(default_factory=set)


class Failures:
    """Remembers which ways have failed. Ways that fail for the same reason wait, and are tried, as one."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin with none; `now` gives a time in seconds."""
        self._now = now
        self._of: dict[Way, _Failure] = {}

    def __contains__(self, way: Way) -> bool:
        """Tell whether a way has failed, and not taken anything since."""
        return way in self._of

    def failed(self, way: Way, alike: Iterable[Way]) -> float | None:
        """Hear that a way has not taken a message, and which others will not either.

        Gives for how many seconds they wait; None if it was known, for others were on their way at the same time.
        """
        ways, now = {way, *alike}, self._now()
        known = [self._of[one] for one in ways if one in self._of]
        failure = max(known, key=lambda one: one.until, default=_Failure(now))
        failure.ways |= ways
        self._of.update(dict.fromkeys(ways, failure))
        if failure.until > now and not failure.tried:
            return None
        backoff_s = min(_BACKOFF_MAX_S, _BACKOFF_S * 2.0**failure.times) * random.uniform(0.5, 1)  # noqa: S311
        failure.until, failure.times, failure.tried = now + backoff_s, failure.times + 1, False
        return backoff_s

    def hold(self, way: Way) -> Callable[[], None]:
        """Let messages wait for a way until what this gives is called."""
        failure = self._of.setdefault(way, _Failure(self._now(), ways={way}))
        failure.until, failure.tried = math.inf, False

        def release() -> None:
            if failure.until == math.inf:
                failure.until = 0.0

        return release

    def trying(self, way: Way) -> None:
        """Hear that a message is on its way: if the way has failed, no other is until something is heard of it.

        If it fails again, only its own partition's transaction was held up.
        """
        failure = self._of.get(way)
        if failure is not None:
            failure.until, failure.tried = self._now() + _TRIAL_S, True

    def taken(self, way: Way) -> None:
        """Hear that a way takes messages."""
        failure = self._of.get(way)
        for other in failure.ways if failure is not None else ():
            if self._of.get(other) is failure:
                del self._of[other]

    def waits(self, way: Way) -> bool:
        """Tell whether messages for a way had better wait."""
        return way in self._of and self._of[way].until > self._now()

    def seconds(self, way: Way) -> float:
        """Give for how long a way that waits has failed."""
        return self._now() - self._of[way].since if self.waits(way) else 0.0
