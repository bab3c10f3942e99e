"""A search rests where others use the machine, and only there."""

import os
import threading
from pathlib import Path

import pytest

from app.base.clock import Clock
from app.serve.search.cpu_backoff import CpuBackoff


class Machine:
    """Four cores with the CPU time of a test, and a record of the sleeps."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.now_s, self.own_s, self.slept = path, 100.0, 0.0, list[float]()
        self.used = self.idle = self.nice = 0
        monkeypatch.setattr(Clock, "monotonic_ms", lambda: round(self.now_s * 1_000))
        monkeypatch.setattr(os, "times", lambda: os.times_result((self.own_s, 0.0, 0.0, 0.0, 0.0)))
        monkeypatch.setattr(threading.Event, "wait", lambda _, seconds: self.slept.append(seconds))
        self.goes_on(0, 0, 0)

    def goes_on(self, seconds: float, others: float, own_s: float, nice: float = 0) -> None:
        """Let seconds pass in which other processes use `others` cores, and nice processes use `nice` more."""
        self.now_s += seconds
        self.own_s += own_s
        used, nice_ticks = round(others * seconds * 100), round((nice * seconds + own_s) * 100)
        self.used += used
        self.nice += nice_ticks
        self.idle += round(400 * seconds) - used - nice_ticks
        self.path.write_text(f"cpu  {self.used} {self.nice} 0 {self.idle} 0 0 0 0 7 7\ncpu0 1 2 3\n", "utf-8")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "stat", monkeypatch)


@pytest.mark.parametrize(("others", "times"), [(3.6, 30), (3, 9), (2, 3), (1, 3)])
def test_the_scanner_rests_longer_the_more_others_use_the_machine(machine: Machine, others: float, times: int) -> None:
    backoff = CpuBackoff(machine.path)
    backoff.waited_for = False
    machine.goes_on(1, others, 0.5)
    backoff.rest()
    machine.goes_on(0.001, others, 0.001)
    backoff.rest()
    assert machine.slept == [0.2, pytest.approx(0.001 * times)]


def test_while_a_person_waits_the_scanner_has_a_tenth_of_a_core_on_every_machine(machine: Machine) -> None:
    backoff = CpuBackoff(machine.path)
    machine.goes_on(1, 4, 0)
    backoff.rest()
    machine.goes_on(1, 3.99, 0.01)  # of its second it waited for a core most of the time
    backoff.rest()
    assert machine.slept == [pytest.approx(0.09)]


def test_the_scanner_does_not_rest_for_processes_that_are_nice(machine: Machine) -> None:
    backoff = CpuBackoff(machine.path)
    for _ in range(5):
        machine.goes_on(1, 0, 0.01, nice=3.99)
        backoff.rest()
    assert not machine.slept


def test_the_scanners_own_cpu_time_does_not_count_as_busy(machine: Machine) -> None:
    backoff = CpuBackoff(machine.path)
    for _ in range(5):
        machine.goes_on(1, 0.7, 1)
        backoff.rest()
    assert not machine.slept


def test_the_scanner_continues_when_others_are_done(machine: Machine) -> None:
    backoff = CpuBackoff(machine.path)
    for others in (3, 0, 3):
        machine.goes_on(1, others, 0.1)
        backoff.rest()
    assert machine.slept == [0.2, 0.2]


def test_without_statistics_of_the_machine_the_scanner_never_rests(machine: Machine, tmp_path: Path) -> None:
    backoff = CpuBackoff(tmp_path / "none")
    for _ in range(3):
        machine.goes_on(1, 3, 0.1)
        backoff.rest()
    assert not machine.slept
