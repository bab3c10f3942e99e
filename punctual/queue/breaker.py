"""A circuit breaker: when too many messages fail, single probes find out when processing works again."""

import math
import time
from collections import deque
from collections.abc import Callable


class Breaker:
    """Opens when too many of the last messages have failed; then a single probe may pass, until one succeeds.

    The first probe waits for `probe_after_s`, each further one twice as long, up to `longest_s`. So a component that is
    down for long gets only these probes, and the messages that were being processed when the breaker opened.
    """

    def __init__(
        self,
        *,
        share: float = 0.5,
        over: int = 20,
        probe_after_s: float = 1.0,
        longest_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open when at least `share` of the last `over` messages have failed; `clock` returns seconds."""
        self.share, self.over = share, over
        self.probe_after_s, self.longest_s = probe_after_s, longest_s
        #: How often it has opened, and how many probes have passed.
        self.opened = self.probes = 0
        self._clock = clock
        self._outcomes = deque[bool](maxlen=over)
        self._wait_s = 0.0
        self._next_probe = 0.0
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether only probes pass."""
        return self._wait_s > 0

    def wait_s(self) -> float:
        """Return the seconds until a message may pass: 0 for at once, infinity while a probe is being processed."""
        if not self.is_open:
            return 0.0
        return math.inf if self._probing else max(0.0, self._next_probe - self._clock())

    def passed(self) -> None:
        """Count a message that passes as a probe, if the breaker is open."""
        if self.is_open:
            self._probing = True
            self.probes += 1

    def succeeded(self) -> None:
        """Count a processed message, which closes the breaker."""
        if self.is_open:
            self._wait_s, self._probing = 0.0, False
        self._outcomes.append(True)

    def failed(self) -> None:
        """Count a message that has failed, or was not settled within its timeout."""
        if not self.is_open:
            self._outcomes.append(False)
            if len(self._outcomes) == self.over and self._outcomes.count(False) >= self.share * self.over:
                self.opened += 1
                self._outcomes.clear()
                self._probe_after(self.probe_after_s)
        elif self._probing:
            self._probe_after(min(self.longest_s, 2 * self._wait_s))

    def _probe_after(self, wait_s: float) -> None:
        self._wait_s, self._probing = wait_s, False
        self._next_probe = self._clock() + wait_s
