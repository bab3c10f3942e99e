"""A worker's clock that stands still until it is moved."""

from app.base.clock import Clock


class SimulatedClock(Clock):
    """Shows the time that a test has come to, and agrees with the brokers'."""

    def __init__(self, start_ms: int) -> None:
        """Show `start_ms`."""
        self._now_ms = start_ms
        super().__init__()
        self.compare(start_ms, start_ms, start_ms)

    def wall_ms(self) -> int:  # type: ignore[override]
        """Return the simulated time."""
        return self._now_ms

    def monotonic_ms(self) -> int:  # type: ignore[override]
        """Return the same: a simulated clock never jumps."""
        return self._now_ms

    def move_to(self, now_ms: int) -> None:
        """Show another time from now on."""
        self._now_ms = now_ms
