"""A worker's clock: off the brokers' by something, and it jumps."""

from app.base.clock import Clock
from tests.simulation.loop import EPOCH_MS, Loop

_REMEMBERED_S = 30.0


class WorkerClock(Clock):
    """Shows the simulated time, shifted."""

    def __init__(self, loop: Loop, shift_ms: int) -> None:
        """Begin `shift_ms` ahead of the brokers' clock."""
        self._loop, self.shift_ms, self._usual_ms = loop, shift_ms, shift_ms
        self._shifts = [(0.0, shift_ms)]
        super().__init__()

    def wall_ms(self) -> int:  # type: ignore[override]
        return EPOCH_MS + int(self._loop.time() * 1000) + self.shift_ms

    def monotonic_ms(self) -> int:  # type: ignore[override]
        return int(self._loop.time() * 1000)

    def jump(self, shift_ms: int) -> None:
        """Put the clock `shift_ms` ahead of the brokers' clock from now on."""
        self._shifts.append((self._loop.time(), shift_ms))
        self.shift_ms = shift_ms

    def mend(self) -> None:
        """Undo all jumps."""
        if self.shift_ms != self._usual_ms:
            self.jump(self._usual_ms)

    @property
    def jumped(self) -> bool:
        """Whether it has ever jumped."""
        return len(self._shifts) > 1

    def latest_ms(self) -> int:
        """Return the latest time that the worker may have read before a send that arrives now."""
        now_s, latest = self._loop.time(), self.shift_ms
        if len(self._shifts) > 1:
            ends = [at_s for at_s, _ in self._shifts[1:]]
            past = [shift for end, (_, shift) in zip(ends, self._shifts, strict=False) if end > now_s - _REMEMBERED_S]
            latest = max([latest, *past])
        return EPOCH_MS + int(now_s * 1000) + latest
