"""How long something would take on an idle machine, however busy this one is.

A test of lateness has a limit in seconds, and a machine that stands still for two seconds breaks it. So a thread
observes for how long it is not woken up: no other code runs in that time either. Such times do not count, and on a
crowded machine all times count less.
"""

import threading
import time
from collections import deque
from typing import Self

from tests.harness.waiting import crowd

#: As it is where a test has patched `time.sleep`.
_sleep = time.sleep
#: How often the thread wakes up, and how much later it must be for that to be a standstill.
_BEAT_S, _STANDSTILL_S = 0.02, 0.1
#: Maximum number of remembered standstills, enough for many minutes.
_MOST = 10_000


class _Watch:
    """Observes this machine from the first question on; its thread ends with the process."""

    def __init__(self) -> None:
        self._standstills: deque[tuple[float, float]] = deque(maxlen=_MOST)
        self._started = False

    def start(self) -> None:
        """Begin, unless it has begun."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._watch, name="pace", daemon=True).start()

    def _watch(self) -> None:
        while True:
            began = time.time()
            _sleep(_BEAT_S)
            due, ended = began + _BEAT_S, time.time()
            if ended - due > _STANDSTILL_S:
                self._standstills.append((due, ended))

    def within(self, began_s: float, ended_s: float) -> float:
        """Return for how many seconds the machine stood still between two moments of the wall clock."""
        spans = list(self._standstills)
        return sum(max(0.0, min(ended, ended_s) - max(began, began_s)) for began, ended in spans)


_WATCH = _Watch()


def watch() -> None:
    """Begin to observe this machine."""
    _WATCH.start()


def standstill_s(began_ms: int, ended_ms: int) -> float:
    """Return for how many seconds this machine stood still between two moments of the wall clock."""
    return _WATCH.within(began_ms / 1_000, ended_ms / 1_000)


def usual_s(began_s: float, ended_s: float) -> float:
    """Return the seconds between two moments of the wall clock, as on an idle machine.

    They are negative if the second moment comes first, and then as they are.
    """
    took = ended_s - began_s
    if took <= 0:
        return took
    return max(0.0, took - _WATCH.within(began_s, ended_s)) / crowd()


def usual_ms(began_ms: int, ended_ms: int) -> int:
    """Return the milliseconds between two moments of the wall clock, as `usual_s` does."""
    return round(1_000 * usual_s(began_ms / 1_000, ended_ms / 1_000))


class Stopwatch:
    """Measures a `with` block: `seconds` is how long it took, as on an idle machine."""

    def __init__(self) -> None:
        """Start at 0 seconds."""
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._began = time.time()
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(2 * _BEAT_S)  # a standstill that ended with the block is known by then
        self.seconds = usual_s(self._began, time.time() - 2 * _BEAT_S)
