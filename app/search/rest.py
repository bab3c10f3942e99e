"""How a search gives way on a machine that others use: it rests several times as long as it works."""

import os
import threading
from pathlib import Path
from typing import Final

from app.clock import Clock

#: What all cores have done since the start of the system, in ticks (proc_stat(5)): Linux alone has it.
_CORES: Final = Path("/proc/stat")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8
#: When others take more than so much of the machine, it rests so many times as long as it works. Even a core that
#: nobody wants is not free then: it shares caches and, as most do, its arithmetic with another one that somebody uses.
_RESTS: Final = ((0.85, 30), (0.6, 9), (0.2, 3))
_LOOK_MS: Final = 200
_LONGEST_MS: Final = 200


class Rest:
    """Asked every now and then between pieces of work."""

    def __init__(self, cores: Path = _CORES) -> None:
        """Take the machine for idle until it has been looked at."""
        self._cores, self._times, self._over = cores, 0, threading.Event()
        self._since_ms = self._looked_ms = Clock.monotonic_ms()
        self._ticks, self._own_s = self._all(), sum(os.times()[:2])

    def take(self) -> None:
        """Let whoever waits for this core have it first, and rest if others use the machine.

        By itself a process may keep its core for three milliseconds, however nice it is (Linux 6.6 on, EEVDF).
        """
        now_ms = Clock.monotonic_ms()
        worked_ms = now_ms - self._since_ms
        if now_ms - self._looked_ms > _LOOK_MS:
            self._look()
        if not self._times:
            os.sched_yield()
        elif worked_ms:
            self._over.wait(min(_LONGEST_MS, self._times * worked_ms) / 1_000)  # nobody sets it
        else:  # it is too short to be told, and counts as part of the next piece
            return
        self._since_ms = Clock.monotonic_ms()

    def _look(self) -> None:
        (total, used), own_s = self._all(), sum(os.times()[:2])
        ticks = total - self._ticks[0]
        others = used - self._ticks[1] - (own_s - self._own_s) * os.sysconf("SC_CLK_TCK")
        self._times = next((times for share, times in _RESTS if others > share * ticks), 0)
        self._ticks, self._own_s, self._looked_ms = (total, used), own_s, Clock.monotonic_ms()

    def _all(self) -> tuple[float, float]:
        """Return how many ticks there were, and how many of these were used."""
        try:
            fields = self._cores.read_text().partition("\n")[0].split()[1:]
        except OSError:
            return 0, 0
        ticks = [int(field) for field in fields[:_GUEST]]  # what guests took is told twice
        return sum(ticks), sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT]
