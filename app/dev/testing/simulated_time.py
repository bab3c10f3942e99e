"""Simulated time: a clock that stands still until a test moves it, and an event loop that waits without delay."""

import asyncio
import selectors
from collections.abc import Callable

from app.base.clock import Clock


class SimulatedClock(Clock):
    """Shows the simulated time, and agrees with the brokers' clock."""

    def __init__(self, start_ms: int) -> None:
        """Begin at `start_ms`."""
        self._now_ms = start_ms
        super().__init__()
        self.compare(start_ms, start_ms, start_ms)

    def wall_ms(self) -> int:  # type: ignore[override]
        """Return the simulated time."""
        return self._now_ms

    def monotonic_ms(self) -> int:  # type: ignore[override]
        """Return the same time: a simulated clock never jumps."""
        return self._now_ms

    def move_to(self, now_ms: int) -> None:
        """Set the time."""
        self._now_ms = now_ms


class _Selector(selectors.DefaultSelector):
    """Polls for input without waiting, and reports how long it would have waited."""

    def __init__(self, waited: Callable[[float], None]) -> None:
        """Call `waited` with the seconds of each skipped wait."""
        super().__init__()
        self._waited = waited

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the descriptors that are ready now."""
        if timeout:
            self._waited(timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs tasks as asyncio's loop does, but in simulated time: when no task is ready, it jumps to the next timer."""

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        """Begin at second zero."""
        self._now_s = 0.0
        super().__init__(_Selector(self.skip))
        # After a simulated half year a float has no nanoseconds left, and asyncio's own value would run no timer.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return the simulated seconds."""
        return self._now_s

    def skip(self, seconds: float) -> None:
        """Let `seconds` pass at once; timers within them run next."""
        self._now_s += seconds

    def until_timer(self) -> float | None:
        """Return the seconds until the next timer, None if there is none."""
        times = [timer.when() for timer in self._scheduled if not timer.cancelled()]
        return min(times) - self._now_s if times else None
