"""CPU time and memory of a process, as Linux accounts them in /proc."""

import bisect
import os
import threading
from pathlib import Path
from typing import Self

from benchmarks.clock import now_ms
from benchmarks.errors import BenchmarkError

_EVERY_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(stat: str, ticks_per_s: int = _TICKS_PER_S) -> float:
    """Return user and system time of all threads in seconds, from the text of /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()  # the name before may contain anything
    return (int(fields[11]) + int(fields[12])) / ticks_per_s


def resident_mib(status: str, name: str = "VmRSS") -> float:
    """Return the resident size (VmRSS now, VmHWM at its peak) in MiB, from the text of /proc/PID/status."""
    return int(status.split(f"{name}:")[1].split(maxsplit=1)[0]) / 1024


def disk_bytes(directory: Path) -> int:
    """Return the disk usage of a directory's files, without files that vanish in the meantime."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


class Series:
    """CPU time over time: a process's CPU time at any instant, interpolated between samples."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._cpu: list[float] = []

    def add(self, at_ms: int, cpu: float) -> None:
        """Add a sample, later than the ones before."""
        self._at.append(at_ms)
        self._cpu.append(cpu)

    def cpu_at(self, at_ms: int) -> float:
        """Return the CPU seconds used by `at_ms`; before the first sample the first, after the last the last."""
        right = bisect.bisect_left(self._at, at_ms)
        if right == 0 or right == len(self._at):
            return self._cpu[min(right, len(self._cpu) - 1)]
        before, after = self._at[right - 1], self._at[right]
        share = (at_ms - before) / (after - before)
        return self._cpu[right - 1] + share * (self._cpu[right] - self._cpu[right - 1])

    def cpu_between(self, from_ms: int, to_ms: int) -> float:
        """Return the CPU seconds used between two instants."""
        return self.cpu_at(to_ms) - self.cpu_at(from_ms)


class Meter:
    """Samples the CPU time of processes while the `with` block runs, 50 times a second (about 0.2 % of a core each)."""

    def __init__(self, *pids: int) -> None:
        self._procs = [Path(f"/proc/{pid}") for pid in pids]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.series = Series()

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def cpu_between(self, from_ms: int, to_ms: int) -> float:
        """Return the CPU seconds used between two instants inside the block."""
        return self.series.cpu_between(from_ms, to_ms)

    def resident_mib(self) -> float:
        """Return the resident size of all in MiB."""
        return sum(resident_mib((proc / "status").read_text("utf-8")) for proc in self._procs)

    def peak_mib(self) -> float:
        """Return the sum of the largest resident sizes since the processes began, in MiB."""
        return sum(resident_mib((proc / "status").read_text("utf-8"), "VmHWM") for proc in self._procs)

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            try:
                self._sample()
            except BenchmarkError:
                return  # the process has ended: its owner reports that

    def _sample(self) -> None:
        try:
            stats = [(proc / "stat").read_text("utf-8") for proc in self._procs]
        except OSError as error:
            msg = f"{error.filename} cannot be read: CPU and memory are measured on Linux only ({error.strerror})."
            raise BenchmarkError(msg) from error
        self.series.add(now_ms(), sum(map(cpu_s, stats)))
