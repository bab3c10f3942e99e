"""The lateness of destinations that a fault does not touch, compared with their lateness before."""

import time
from collections.abc import Collection

from tests.chaos.run import Run
from tests.harness.kafka import now_ms

#: What healthy destinations and good requests may suffer from bad ones.
_P99_MS = 250
#: A machine that is as late as this without any fault is too busy with other things: the short form only measures then.
_BUSY_MS = 100


class Neighbours:
    """Destinations that must be on time, while there is traffic.

    Args:
        run: the run.
        outs: their topics.
    """

    def __init__(self, run: Run, outs: Collection[str]) -> None:
        self._run, self._outs = run, list(outs)
        self._busy = False

    def before(self, seconds: float) -> None:
        """Note the p99 lateness for `seconds` without a fault."""
        begin, end = _during(seconds)

        def look() -> None:
            p99 = self._run.p99_ms(self._outs, begin, end)
            self._run.measure("before_p99_ms", p99)
            self._busy = self._run.short and p99 > _BUSY_MS

        self._run.afterwards.append(look)  # undelivered messages would be missing from the p99

    def during(self, seconds: float) -> None:
        """Expect the promised p99 lateness for `seconds` while others suffer."""
        begin, end = _during(seconds)

        def look() -> None:
            p99 = self._run.p99_ms(self._outs, begin, end)
            self._run.measure("neighbours_p99_ms", p99)
            self._run.expect(self._busy or p99 <= _P99_MS, f"others were {p99} ms late (p99), {_P99_MS} is promised")

        self._run.afterwards.append(look)


def _during(seconds: float) -> tuple[int, int]:
    begin = now_ms()
    time.sleep(seconds)
    return begin, now_ms()
