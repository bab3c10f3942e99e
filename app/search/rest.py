"""How a search gives way on a machine that others keep busy: it rests three times as long as it works."""

import os
import time
from pathlib import Path
from typing import Final

#: What all cores have done since the start of the system, in ticks (proc_stat(5)): Linux alone has it.
_CORES: Final = Path("/proc/stat")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8
#: A machine is busy when others take more than this of it. Then even a core that nobody wants is not free: it shares
#: caches and, as most do, its arithmetic with another one that somebody uses.
_BUSY: Final = 0.6
_LOOK_S: Final = 0.2
_TIMES, _LONGEST_S = 3, 0.02


class Rest:
    """Asked every now and then between pieces of work."""

    def __init__(self, cores: Path = _CORES) -> None:
        """Take the machine for idle until it has been looked at."""
        self._cores, self._busy = cores, False
        self._since_s = self._looked_s = time.monotonic()
        self._ticks, self._own_s = self._all(), time.process_time()

    def take(self) -> None:
        """Let whoever waits for this core have it first, and rest if the machine is busy.

        By itself a process may keep its core for three milliseconds, however nice it is (Linux 6.6 on, EEVDF).
        """
        worked_s = time.monotonic() - self._since_s
        if time.monotonic() - self._looked_s > _LOOK_S:
            self._look()
        if self._busy:
            time.sleep(min(_LONGEST_S, _TIMES * worked_s))
        else:
            os.sched_yield()
        self._since_s = time.monotonic()

    def _look(self) -> None:
        (total, used), own_s = self._all(), time.process_time()
        ticks = total - self._ticks[0]
        others = used - self._ticks[1] - (own_s - self._own_s) * os.sysconf("SC_CLK_TCK")
        self._busy = others > _BUSY * ticks
        self._ticks, self._own_s, self._looked_s = (total, used), own_s, time.monotonic()

    def _all(self) -> tuple[float, float]:
        """Return how many ticks there were, and how many of these were used."""
        try:
            fields = self._cores.read_text().partition("\n")[0].split()[1:]
        except OSError:
            return 0, 0
        ticks = [int(field) for field in fields[:_GUEST]]  # what guests took is told twice
        return sum(ticks), sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT]
