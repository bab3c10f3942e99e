"""An event loop on which waiting takes no time: its clock goes to the next timer when nothing is ready."""

import asyncio
import selectors
from collections.abc import Callable


class _Selector(selectors.DefaultSelector):
    """Looks for input without waiting, and says how long it would have waited."""

    def __init__(self, waited: Callable[[float], None]) -> None:
        """Tell `waited` the seconds."""
        super().__init__()
        self._waited = waited

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now."""
        if timeout:
            self._waited(timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs tasks as asyncio's loop does, in simulated seconds."""

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
        """Let so much time pass at once; timers that it reaches are run next."""
        self._now_s += seconds

    def until_timer(self) -> float | None:
        """Return the seconds until the next timer, None if there is none."""
        times = [timer.when() for timer in self._scheduled if not timer.cancelled()]
        return min(times) - self._now_s if times else None
