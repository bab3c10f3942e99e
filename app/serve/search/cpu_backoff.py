"""Keeps a search from slowing down others on a busy machine: it rests several times as long as it works."""

import os
import threading
from pathlib import Path
from typing import Final

from app.base.clock import Clock

#: What all cores have done since the start of the system, in ticks (proc_stat(5)): Linux alone has it.
_CORES: Final = Path("/proc/stat")
_NICE, _IDLE, _IOWAIT, _GUEST = 1, 3, 4, 8
#: When others take more than so much of the machine, it rests so many times as long as it works. Even a core that
#: nobody wants is not free then: it shares caches and, as most do, its arithmetic with another one that somebody uses.
_RESTS: Final = ((0.85, 30), (0.6, 9), (0.2, 3))
#: Where a person waits for the answer: a tenth of a core, whatever others do.
_LONGEST_OF_PERSON: Final = 9
_LOOK_MS: Final = 200
_LONGEST_MS: Final = 200


class CpuBackoff:
    """Rests between pieces of work, by how busy the machine is."""

    def __init__(self, cores: Path = _CORES, *, worker_is_nice: bool = False) -> None:
        """Take the machine for idle until it has been looked at.

        Processes that are nice don't count as others, unless the worker itself is one.
        """
        self._left_out, self._worker_is_nice = () if worker_is_nice else (_NICE,), worker_is_nice
        self._cores, self._times, self._over = cores, 0, threading.Event()
        self._looked_ms, self._worked_s = Clock.monotonic_ms(), _cpu_s()
        self._ticks, self._own_s = self._all(), self._counted_s()
        #: Whether a person waits for the answer.
        self.waited_for = True

    def rest(self) -> None:
        """Let whoever waits for this core have it first, and rest if others use the machine.

        By itself a process may keep its core for three milliseconds, however nice it is (Linux 6.6 on, EEVDF).
        """
        if Clock.monotonic_ms() - self._looked_ms > _LOOK_MS:
            self._look()
        # Time on a core, not by the clock: what it waits for a core is a rest already.
        worked_ms = (_cpu_s() - self._worked_s) * 1_000
        if not self._times:
            os.sched_yield()
        elif worked_ms >= 1:
            times = min(self._times, _LONGEST_OF_PERSON) if self.waited_for else self._times
            self._over.wait(min(_LONGEST_MS, times * worked_ms) / 1_000)  # nobody sets it
        else:  # it is too short to be told, and counts as part of the next piece
            return
        self._worked_s = _cpu_s()

    def _look(self) -> None:
        (total, used), own_s = self._all(), self._counted_s()
        ticks = total - self._ticks[0]
        others = used - self._ticks[1] - (own_s - self._own_s) * os.sysconf("SC_CLK_TCK")
        self._times = next((times for share, times in _RESTS if others > share * ticks), 0)
        self._ticks, self._own_s, self._looked_ms = (total, used), own_s, Clock.monotonic_ms()

    def _all(self) -> tuple[float, float]:
        """Return how many ticks there were, and how many of these were used by whoever counts."""
        try:
            fields = self._cores.read_text("utf-8").partition("\n")[0].split()[1:]
        except OSError:
            return 0, 0
        ticks = [int(field) for field in fields[:_GUEST]]  # what guests took is told twice
        return sum(ticks), sum(ticks) - sum(ticks[field] for field in (*self._left_out, _IDLE, _IOWAIT))

    def _counted_s(self) -> float:
        """Return how much of what was used this process has used: its own programme is nice, and the system is not."""
        return _cpu_s() if self._worker_is_nice else os.times().system


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
