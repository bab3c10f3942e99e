"""How many messages have arrived lately, as far as that follows from what was sent and what is on its way."""

from collections import deque

SPAN_MS = 10_000
#: Arrivals so close together are counted as one.
_STEP_MS = 100


class Arrivals:
    """Counts over the last ten seconds. Times are milliseconds."""

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
