"""Keeps a search from slowing down other processes on a busy machine: it rests several times as long as it works."""

import os
import threading
from pathlib import Path
from typing import Final

from app.base.clock import Clock

#: The time of all cores since the start of the system, in ticks (proc_stat(5)); only Linux has it.
_CORES: Final = Path("/proc/stat")
_NICE, _IDLE, _IOWAIT, _GUEST = 1, 3, 4, 8
#: Pairs (share, times): if others use more than this share of the machine, rest this many times as long as it works.
#: An idle core is not free either: it shares caches and, usually, its arithmetic units with a core in use.
_RESTS: Final = ((0.85, 30), (0.6, 9), (0.2, 3))
#: The maximum `times` if a person waits for the result: a tenth of a core in any case.
_LONGEST_OF_PERSON: Final = 9
_LOOK_MS: Final = 200
_LONGEST_MS: Final = 200


class CpuBackoff:
    """Rests between pieces of work, depending on the load of the machine."""

    def __init__(self, cores: Path = _CORES, *, worker_is_nice: bool = False) -> None:
        """Assume an idle machine until the first measurement.

        Processes with a nice value do not count as others, unless the worker itself has one.
        """
        self._left_out, self._worker_is_nice = () if worker_is_nice else (_NICE,), worker_is_nice
        self._cores, self._times, self._over = cores, 0, threading.Event()
        self._looked_ms, self._worked_s = Clock.monotonic_ms(), _cpu_s()
        self._ticks, self._own_s = self._all(), self._counted_s()
        #: Whether a person waits for the result.
        self.waited_for = True

    def rest(self) -> None:
        """Let waiting processes use this core first, and rest if others use the machine.

        Without this, a process can keep its core for three milliseconds at any nice value (Linux 6.6 on, EEVDF).
        """
        if Clock.monotonic_ms() - self._looked_ms > _LOOK_MS:
            self._look()
        # CPU time, not time by the clock, because the wait for a core is already a rest.
        worked_ms = (_cpu_s() - self._worked_s) * 1_000
        if not self._times:
            os.sched_yield()
        elif worked_ms >= 1:
            times = min(self._times, _LONGEST_OF_PERSON) if self.waited_for else self._times
            self._over.wait(min(_LONGEST_MS, times * worked_ms) / 1_000)  # the event is never set
        else:  # too short to measure, so it counts as part of the next piece
            return
        self._worked_s = _cpu_s()

    def _look(self) -> None:
        (total, used), own_s = self._all(), self._counted_s()
        ticks = total - self._ticks[0]
        others = used - self._ticks[1] - (own_s - self._own_s) * os.sysconf("SC_CLK_TCK")
        self._times = next((times for share, times in _RESTS if others > share * ticks), 0)
        self._ticks, self._own_s, self._looked_ms = (total, used), own_s, Clock.monotonic_ms()

    def _all(self) -> tuple[float, float]:
        """Return the number of ticks of all cores, and the ticks that counted processes used."""
        try:
            fields = self._cores.read_text("utf-8").partition("\n")[0].split()[1:]
        except OSError:
            return 0, 0
        ticks = [int(field) for field in fields[:_GUEST]]  # ticks of guests are counted twice
        return sum(ticks), sum(ticks) - sum(ticks[field] for field in (*self._left_out, _IDLE, _IOWAIT))

    def _counted_s(self) -> float:
        """Return the CPU seconds of this process in the counted ticks: its code is nice, and system calls are not."""
        return _cpu_s() if self._worker_is_nice else os.times().system


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
