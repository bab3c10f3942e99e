"""Cron schedules in time zones (docs/reference/records.md#recurring-messages; docs/decisions/0015)."""

from copy import copy
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from punctual.contract.zones import stretch_at

#: Names for what most ask for.
NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: The first second that no schedule has: datetime ends with the year 9999, and CronSim looks 50 years ahead.
END_S: Final = int(datetime.fromisoformat("9900-01-01T00:00:00Z").timestamp())

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - what a clock on the wall shows has no zone
_SECOND: Final = timedelta(seconds=1)
#: More than any two clocks differ by: what is further off is not changed by what is here.
_FAR_S: Final = 2 * 86_400
_FIELDS: Final = (5, 6)
_LETTERS: Final = 256


class Schedule:
    """The times of a cron expression in a zone, in epoch seconds.

    CronSim goes through the calendar alone. What becomes of its times where clocks are changed is decided here: with
    a wildcard in hours or minutes a time of the schedule is whenever the clocks show it. Without, each time of the
    calendar has one moment: the first at which clocks show it or, if it is skipped, something later.
    """

    def __init__(self, text: str, zone: str) -> None:
        """Take an expression that `parse` has returned."""
        self._calendar = CronSim(text, _EPOCH)
        self._zone = zone
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
                found = max(wall - stretch.offset, stretch.start)  # the start, if the time was skipped
                return found if found <= until else None
            if stretch.end > until:
                return None
            far = reached > base + _FAR_S and wall - _FAR_S > stretch.end
            stretch = stretch_at(self._zone, wall - _FAR_S if far else stretch.end)
            shown = stretch.start + stretch.offset
            if self._wild and not base < shown <= wall:
                base = shown - 1
                wall = self._next(base)
        return None

    def _next(self, wall: int) -> int | None:
        """Return the first time of the calendar after `wall`: seconds that a clock shows that is never changed."""
        calendar = copy(self._calendar)
        calendar.dt = _EPOCH + timedelta(seconds=wall)
        found = next(calendar, None)
        return None if found is None else (found - _EPOCH) // _SECOND


@lru_cache(maxsize=2048)
def schedule(text: str, zone: str) -> Schedule:
    """Return the schedule of an expression that `parse` has returned; parsed schedules are kept."""
    return Schedule(text, zone)


def parse(text: str) -> str:
    """Return the 5 or 6 fields of a cron expression or of its name. Raises ValueError with a sentence."""
    if text.startswith("@") and text not in NAMED:
        msg = f"{text[:64]!r} is no name of a schedule. There are {', '.join(NAMED)}"
        raise ValueError(msg)
    fields = NAMED.get(text, text).split()
    if len(fields) not in _FIELDS or len(text) > _LETTERS or not text.isascii():
        msg = (
            f"{text[:64]!r} is no schedule. Write 5 fields, minute, hour, day of month, month and day of week, or 6, "
            "with the second before them: 30 2 * * *"
        )
        raise ValueError(msg)
    try:
        CronSim(" ".join(fields), _EPOCH)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        msg = f"{text[:64]!r} is no schedule: its {field} cannot be. See docs/reference/records.md#recurring-messages"
        if field == "day-of-month" and _is_possible([*fields[:-2], "*", fields[-1]]):
            msg = f"{text[:64]!r} has no occurrence: its months have no such day"
        raise ValueError(msg) from error
    return " ".join(fields)


def _is_possible(fields: list[str]) -> bool:
    try:
        CronSim(" ".join(fields), _EPOCH)
    except CronSimError:
        return False
    return True
