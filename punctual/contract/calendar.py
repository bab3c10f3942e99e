"""The calendar of a cron expression: its times on a clock without time zones (docs/decisions/0015)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import date, datetime
from typing import Final, NamedTuple

from cronsim import CronSim, CronSimError

DAY_S: Final = 86_400
#: The maximum years between two times: 29 February falls on a given weekday at least every 40 years.
_YEARS: Final = 41
_LAST_YEAR: Final = 9999
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - this clock has no zone
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FEBRUARY: Final = 2
_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: Bit d of a mask is day d of a month. This mask has the days of the weekday with which the month begins.
_WEEKLY: Final = sum(1 << day for day in range(1, 32, 7))
_SUNDAY: Final = 6


class _Days(NamedTuple):
    """A weekday of an expression: `weekly` has its days as bits, if day 1 is this weekday; `last` adds the last day."""

    weekday: int
    weekly: int
    last: bool


class Calendar:
    """Finds the times of a cron expression.

    The days of a month follow from its length and its first weekday, so a search takes one step per month, not per day.
    Months in which the expression never has a day are left out, so each search ends within 41 years.
    """

    def __init__(self, text: str) -> None:
        """Parse an expression of 5 or 6 fields. Raises CronSimError, or NeverMatches if it has no times."""
        parts = CronSim(" ".join(",".join(dict.fromkeys(field.split(","))) for field in text.split()), _EPOCH)
        self._seconds, self._minutes, self._hours = map(sorted, (parts.seconds, parts.minutes, parts.hours))
        self._days = sum(1 << day for day in parts.days if day > 0)
        self._last, self._last_workday = CronSim.LAST in parts.days, CronSim.LAST_WEEKDAY in parts.days
        self._weekdays = list(_weekdays(parts.weekdays))
        self._both = parts.day_and
        self._masks: dict[tuple[int, int], int] = {}
        self._years: dict[tuple[int, int], int] = {}
        self._months = [month for month in sorted(parts.months) if self._is_possible(month)]
        if not self._months:
            raise NeverMatches

    def after(self, wall: int) -> int | None:
        """Return the first time after `wall`, in seconds since 1970 as this clock shows them; None after the year 9999.

        It takes some microseconds, and at most 41 years of months.
        """
        day, second = divmod(wall + 1, DAY_S)
        match = self._day_from(day)
        if match == day:
            time = self._time_from(second)
            if time is not None:
                return day * DAY_S + time
            match = self._day_from(day + 1)
        if match is None:
            return None
        return match * DAY_S + (self._hours[0] * 60 + self._minutes[0]) * 60 + self._seconds[0]

    def number(self, after: int, until: int) -> int:
        """Return the number of times after `after`, up to and including `until`, both as this clock shows them."""
        if until <= after:
            return 0
        (first, begin), (last, end) = divmod(after, DAY_S), divmod(until, DAY_S)
        if first == last:
            return self._number_of_day(last, end) - self._number_of_day(first, begin)
        whole = self._days_between(first, last) * len(self._hours) * len(self._minutes) * len(self._seconds)
        return whole - self._number_of_day(first, begin) + self._number_of_day(last, end)

    def _days_between(self, first: int, end: int) -> int:
        """Return the number of days of the expression from `first` to before `end`, both in days since 1970."""
        begin, last = date.fromordinal(_EPOCH_DAY + first), date.fromordinal(_EPOCH_DAY + end)
        whole = sum(map(self._days_of_year, range(begin.year, last.year)))
        return whole + self._days_before(last) - self._days_before(begin)

    def _days_before(self, day: date) -> int:
        """Return the number of days of the expression in the year of `day`, before `day`."""
        days = 0
        for month in self._months:
            if month > day.month:
                break
            mask = self._mask_of(day.year, month)
            days += (mask & (1 << day.day) - 1 if month == day.month else mask).bit_count()
        return days

    def _days_of_year(self, year: int) -> int:
        """Return the number of days of the expression in a year, cached for the 14 different calendars of a year."""
        kind = date(year, 1, 1).weekday(), _length(year, _FEBRUARY)
        kept = self._years.get(kind)
        if kept is None:
            kept = self._years[kind] = sum(self._mask_of(year, month).bit_count() for month in self._months)
        return kept

    def _number_of_day(self, day: int, second: int) -> int:
        """Return the number of times on a day, up to its `second`."""
        on = date.fromordinal(_EPOCH_DAY + day)
        has_times = on.month in self._months and self._mask_of(on.year, on.month) >> on.day & 1
        return self._number_up_to(second) if has_times else 0

    def _number_up_to(self, second: int) -> int:
        """Return the number of times up to `second` on a day of the expression."""
        hour, minute, second = second // 3600, second // 60 % 60, second % 60
        hours, minutes = bisect_left(self._hours, hour), bisect_left(self._minutes, minute)
        number = hours * len(self._minutes) * len(self._seconds)
        if hour in self._hours[hours : hours + 1]:
            number += minutes * len(self._seconds)
            if minute in self._minutes[minutes : minutes + 1]:
                number += bisect_right(self._seconds, second)
        return number

    def _day_from(self, day: int) -> int | None:
        """Return the first day of the expression from `day` on, in days since 1970."""
        begin = date.fromordinal(_EPOCH_DAY + day)
        for year in range(begin.year, min(begin.year + _YEARS, _LAST_YEAR) + 1):
            for month in self._months:
                if year == begin.year and month < begin.month:
                    continue
                mask = self._mask_of(year, month)
                if year == begin.year and month == begin.month:
                    mask = mask >> begin.day << begin.day
                if mask:
                    return date(year, month, 1).toordinal() - _EPOCH_DAY + (mask & -mask).bit_length() - 2
        return None

    def _time_from(self, second: int) -> int | None:
        """Return the first time of a day from its `second` on."""
        hours, minutes, seconds = self._hours, self._minutes, self._seconds
        hour, minute, second = second // 3600, second // 60 % 60, second % 60
        at = bisect_left(seconds, second)
        carry = at == len(seconds)
        second = seconds[0 if carry else at]
        at = bisect_left(minutes, minute + carry)
        carry = at == len(minutes)
        later = carry or minutes[at] > minute
        minute = minutes[0 if carry else at]
        at = bisect_left(hours, hour + carry)
        if at == len(hours):
            return None
        if hours[at] > hour:
            minute, later = minutes[0], True
        return (hours[at] * 60 + minute) * 60 + (seconds[0] if later else second)

    def _is_possible(self, month: int) -> bool:
        """Return whether the expression has a day in this month of any year."""
        lengths = (28, 29) if month == _FEBRUARY else (_LENGTHS[month],)
        return any(self._mask(length, first) for length in lengths for first in range(7))

    def _mask_of(self, year: int, month: int) -> int:
        """Return the days of the expression in a month of a year, as bits."""
        return self._mask(_length(year, month), date(year, month, 1).weekday())

    def _mask(self, length: int, first: int) -> int:
        """Return the days of the expression in a month of this length whose day 1 is the weekday `first`, as bits."""
        kept = self._masks.get((length, first))
        if kept is None:
            of_month, of_week = self._of_month(length, first), self._of_week(length, first)
            kept = (of_month & of_week if self._both else of_month | of_week) & ((2 << length) - 2)
            self._masks[length, first] = kept
        return kept

    def _of_month(self, length: int, first: int) -> int:
        mask = self._days
        if self._last:
            mask |= 1 << length
        if self._last_workday:
            mask |= 1 << length - max(0, (first + length - 1) % 7 - 4)
        return mask

    def _of_week(self, length: int, first: int) -> int:
        mask = 0
        for weekday, weekly, last in self._weekdays:
            shift = (weekday - first) % 7
            mask |= weekly << shift
            if last:
                mask |= 1 << 29 + shift - (7 if 29 + shift > length else 0)
        return mask


class NeverMatches(CronSimError):
    """No month has a day of the expression."""


def _weekdays(items: Iterable[int | tuple[int, int]]) -> Iterable[_Days]:
    """Yield the days of each weekday in a day-of-week field; Monday is 0."""
    weekly, last = dict[int, int](), set[int]()
    for item in items:
        number, nth = item if isinstance(item, tuple) else (item, 0)
        weekday = (number - 1) % 7
        if nth == CronSim.LAST:
            last.add(weekday)
        else:
            weekly[weekday] = weekly.get(weekday, 0) | (1 << 7 * nth - 6 if nth else _WEEKLY)
    for weekday in weekly.keys() | last:
        yield _Days(weekday, weekly.get(weekday, 0), weekday in last)


def _length(year: int, month: int) -> int:
    is_leap = month == _FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _LENGTHS[month] + is_leap
