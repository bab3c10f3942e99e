"""Cron schedules in time zones (docs/reference/recurring-messages.md; docs/decisions/0015)."""

from bisect import bisect_left
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from cronsim import CronSimError

from punctual.contract.calendar import DAY_S, Calendar, NeverMatches
from punctual.contract.zones import changes_between, stretch_at

#: Names for frequent expressions.
NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: The first second beyond all schedules: datetime ends with the year 9999, and a calendar looks 41 years ahead.
END_S: Final = int(datetime.fromisoformat("9900-01-01T00:00:00Z").timestamp())

#: More than the difference of any two clocks: a change of clocks has no effect on times further away.
_FAR_S: Final = 2 * DAY_S
_FIELDS: Final = (5, 6)
#: The number of values of each field.
_SIZES: Final = (("second", 60), ("minute", 60), ("hour", 24), ("day-of-month", 31), ("month", 12), ("day-of-week", 7))
#: The maximum length of an expression.
LETTERS: Final = 256


class Schedule:
    """The times of a cron expression in a zone, in epoch seconds.

    Its calendar has no zones. This class places the calendar's times where clocks are changed. With a wildcard in
    hours or minutes, a time occurs whenever clocks show it. Without one, each time of the calendar occurs once:
    when clocks first show it or, if they skip it, when they first show a later time.
    """

    def __init__(self, text: str, zone: str) -> None:
        """Use an expression that `parse` has returned."""
        calendar = _calendar(text)
        self._next, self._number, self._zone = calendar.after, calendar.number, zone
        minute, hour = text.split()[-5:-3]
        self._wild = minute.startswith("*") or hour.startswith("*")

    def after(self, moment: int, until: int = END_S) -> int | None:
        """Return the first time after `moment`, None if that is after `until`."""
        until = min(until, END_S)
        if moment >= until:
            return None
        stretch = stretch_at(self._zone, moment)
        shown = moment + stretch.offset
        base = shown if self._wild else max(shown, stretch.reached - 1)
        wall = self._next(base)
        while wall is not None:
            reached = stretch.end + stretch.offset
            if wall < reached:
                at = max(wall - stretch.offset, stretch.start)  # the start, if the time was skipped
                return at if at <= until else None
            if stretch.end > until:
                return None
            far = reached > base + _FAR_S and wall - _FAR_S > stretch.end
            stretch = stretch_at(self._zone, wall - _FAR_S if far else stretch.end)
            shown = stretch.start + stretch.offset
            if self._wild and not base < shown <= wall:
                base = shown - 1
                wall = self._next(base)
        return None

    def offset(self, moment: int) -> int:
        """Return by how many seconds clocks are ahead of UTC at `moment`."""
        return stretch_at(self._zone, moment).offset

    def replanned(self, planned: int, offset: int | None) -> int | None:
        """Return the new moment of the time `planned`, after the zone's rules have changed; None if there is none.

        `offset` is how far clocks were ahead of UTC by the former rules. Clocks show the same at the returned moment,
        unless an earlier time already occurs then. Without `offset` the nearest time is returned.
        """
        if offset is None or (offset == self.offset(planned) and self.after(planned - 1) == planned):
            return self._nearest(planned)
        wall = planned + offset
        wanted = self._shows(wall, planned)
        if wanted >= planned:
            is_skipped = not self._number(wall - 1, wall)  # there was no such time by the former rules
            return self.after(planned - 1 if self._wild or is_skipped else wanted - 1)
        # It must be after the time before it, which has its own occurrence.
        since = range(wanted - 1, planned)
        return self.after(since[bisect_left(since, 1, key=lambda at: not self._number(at + offset, wall - 1))])

    def _shows(self, wall: int, near: int) -> int:
        """Return the first moment at which clocks show `wall` or a later time."""
        stretch = stretch_at(self._zone, wall - self.offset(near))
        at, before = wall - stretch.offset, wall - (stretch.reached - stretch.start)
        if before < stretch.start:
            return min(at, before)
        return at if at < stretch.end else min(at, wall - self.offset(stretch.end))

    def _nearest(self, moment: int) -> int | None:
        following = self.after(moment - 1)
        if following is None or following == moment:
            return following
        since = range(moment - _FAR_S, moment)
        at = bisect_left(since, moment, key=lambda second: self.after(second) or END_S)
        return since[at] if at and moment - since[at] < following - moment else following

    def number(self, after: int, until: int) -> int:
        """Return the number of times after one moment, up to another, at a cost that does not grow with the number.

        The calendar counts the times between what clocks show at both moments. Each change of clocks between them needs
        a correction, for skipped times and for repeated ones.
        """
        until = min(until, END_S - 1)
        if until <= after:
            return 0
        first, last = stretch_at(self._zone, after), stretch_at(self._zone, until)
        low, high = after + first.offset, until + last.offset
        if not self._wild:
            low, high = max(low, first.reached - 1), max(high, last.reached - 1)
        number = self._number(low, high) - self._number(high, low)
        for stretch in changes_between(self._zone, first.end, last.start):
            begin, reached = stretch.start + stretch.offset, stretch.reached
            if self._wild:
                number += self._number(begin - 1, reached - 1) - self._number(reached - 1, begin - 1)
            elif reached < begin:
                skipped = self._number(reached - 1, begin)
                number += min(1, skipped) - skipped  # together they occur once, at the start
        return number


@lru_cache(maxsize=2048)
def schedule(text: str, zone: str) -> Schedule:
    """Return the cached schedule of an expression that `parse` has returned."""
    return Schedule(text, zone)


class _Verdict(NamedTuple):
    """The result of parsing: the fields of a schedule, or in `refusal` the reason why it is invalid."""

    fields: str
    refusal: str = ""


def parse(text: str) -> str:
    """Return the 5 or 6 fields of a cron expression, or of its name.

    Raises ValueError with a sentence, also for an expression that never matches. Results and refusals are cached.
    """
    if len(text) > LETTERS or not text.isascii():
        raise ValueError(_no_schedule(text))
    verdict = _judge(text)
    if verdict.refusal:
        raise ValueError(verdict.refusal)
    return verdict.fields


@lru_cache(maxsize=2048)
def _judge(text: str) -> _Verdict:
    if text.startswith("@") and text not in NAMED:
        return _Verdict("", f"{text[:64]!r} is not the name of a schedule. Use one of {', '.join(NAMED)}")
    fields = NAMED.get(text, text).split()
    if len(fields) not in _FIELDS:
        return _Verdict("", _no_schedule(text))
    try:
        _calendar(" ".join(fields))
    except NeverMatches:
        return _Verdict("", _never(text))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        # CronSim reports a day that its months do not have as an invalid day.
        if field == "day-of-month" and _is_possible([*fields[:-2], "*", fields[-1]]):
            return _Verdict("", _never(text))
        page = "docs/reference/recurring-messages.md"
        return _Verdict("", f"{text[:64]!r} is not a schedule: its {field} is invalid. See {page}")
    return _Verdict(" ".join(fields))


def doubt(text: str) -> str | None:
    """Return a sentence if a valid expression is unlikely to be intended, else None.

    A step that is larger than its field selects only the first value: `*/90` in minutes is once an hour.
    """
    fields = NAMED.get(text, text).split()
    for (name, size), field in zip(_SIZES[-len(fields) :], fields, strict=True):
        for term in field.split(","):
            begin, _, step = term.partition("/")
            if step.isdigit() and int(step) > size:
                return (
                    f"the step of {term} is longer than the {name} field, which has {size} values: it matches only the "
                    f"first value of {begin}"
                )
    return None


@lru_cache(maxsize=2048)
def _calendar(fields: str) -> Calendar:
    return Calendar(fields)


def _is_possible(fields: list[str]) -> bool:
    try:
        Calendar(" ".join(fields))
    except CronSimError:
        return False
    return True


def _never(text: str) -> str:
    return f"{text[:64]!r} never occurs: none of its months has that day"


def _no_schedule(text: str) -> str:
    return (
        f"{text[:64]!r} is not a schedule. Use 5 fields (minute, hour, day of month, month, day of week), or 6 with "
        "the second before them: 30 2 * * *"
    )
