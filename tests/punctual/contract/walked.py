"""Computes the times of schedules by stepping through UTC and reading the clocks of a zone.

An independent calculation: it reads no cron, knows no changes of clocks beforehand, and has the rule its own way. A
time of a schedule with wildcards is whenever clocks show it. One without is when they show it for the first time, or
when they have passed it by.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Seconds: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

#: How often clocks are read; if they have changed in between, at each step in between.
ASKED_S = 3_600
DAY_S = 86_400


@dataclass(frozen=True)
class Asked:
    """The fields of a cron expression as sets; None stands for any value."""

    text: str
    hours: Iterable[int] | None
    minutes: Iterable[int] | None
    days: Iterable[int] | None = None
    months: Iterable[int] | None = None
    weekdays: Iterable[int] | None = None
    seconds: Iterable[int] | None = (0,)
    wild: bool = False

    def shown(self, clock: "Readings") -> Flags:
        """Return the readings that match the schedule."""
        shown: Flags = _of(self.hours, 24)[clock.hours] & _of(self.minutes, 60)[clock.minutes]
        shown &= _of(self.seconds, 60)[clock.seconds]
        shown &= self._dates(clock.first, clock.first + int(clock.days.max()))[clock.days]
        return shown

    def _dates(self, first: int, last: int) -> Flags:
        numbers = np.arange(first, last + 1)
        months = numbers.astype("datetime64[D]").astype("datetime64[M]")
        of_month = (numbers - months.astype("datetime64[D]").astype(int)) + 1
        day = _of(self.days, 32)[of_month]
        weekday = _of(self.weekdays, 7)[(numbers + 4) % 7]  # 1 January 1970 was a Thursday
        either = self.days is not None and self.weekdays is not None
        dates: Flags = _of(self.months, 13)[months.astype(int) % 12 + 1] & (day | weekday if either else day & weekday)
        return dates


def _of(values: Iterable[int] | None, size: int) -> Flags:
    table = np.full(size, values is None)
    table[list(values or ())] = True
    return table


class Readings:
    """The fields of a clock's local times (seconds since 1970); days are counted from day `first`."""

    def __init__(self, walls: Seconds) -> None:
        self.first = int(walls.min()) // DAY_S
        minutes = walls // 60
        self.seconds = (walls - minutes * 60).astype(np.uint8)
        hours = minutes // 60
        self.minutes = (minutes - hours * 60).astype(np.uint8)
        days = hours // 24
        self.hours = (hours - days * 24).astype(np.uint8)
        self.days = (days - self.first).astype(np.uint16)


@dataclass(frozen=True)
class Walk:
    """The local times of a zone from `start` up to `end`, at each step."""

    zone: str
    start: int
    end: int
    step: int = 60

    @cached_property
    def walls(self) -> Seconds:
        """The local times, in seconds since 1970."""
        clock = ZoneInfo(self.zone)
        looks = np.array([_ahead(clock, moment) for moment in range(self.start, self.end + ASKED_S, ASKED_S)], np.int32)
        ahead = np.repeat(looks, ASKED_S // self.step)
        for look in np.flatnonzero(np.diff(looks)):
            between = range(look * ASKED_S // self.step, (look + 1) * ASKED_S // self.step)
            ahead[between.start : between.stop] = [_ahead(clock, self.start + n * self.step) for n in between]
        steps: Seconds = np.arange(self.start, self.end, self.step, dtype=np.int32)
        return steps + ahead[: len(steps)]

    @cached_property
    def _readings(self) -> Readings:
        return Readings(self.walls)

    @cached_property
    def _passed(self) -> Seconds:
        """The maximum of the local times before each step."""
        passed: Seconds = np.maximum.accumulate(np.append(self.walls[:1] - self.step, self.walls[:-1]))
        return passed

    @cached_property
    def _first_time(self) -> Flags:
        return np.greater(self.walls, self._passed)

    @cached_property
    def _skips(self) -> list[int]:
        """The indices of steps before which local times were skipped."""
        return [int(n) for n in np.flatnonzero(self.walls > self._passed + self.step)]

    @cached_property
    def changes(self) -> list[int]:
        """The times at which the clocks change: the local time is not one step after the last one."""
        return [self.start + int(n + 1) * self.step for n in np.flatnonzero(np.diff(self.walls) != self.step)]

    def due(self, asked: Asked) -> list[int]:
        """Return the times of a schedule."""
        due = asked.shown(self._readings)
        if not asked.wild:
            due &= self._first_time
            for n in self._skips:
                skipped = np.arange(self._passed[n] + self.step, self.walls[n], self.step, dtype=np.int32)
                due[n] |= asked.shown(Readings(skipped)).any()
        return [self.start + int(n) * self.step for n in np.flatnonzero(due)]


def _ahead(clock: ZoneInfo, moment: int) -> int:
    offset = datetime.fromtimestamp(moment, clock).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
