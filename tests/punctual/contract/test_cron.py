"""Cron schedules in time zones: every time of the calendar once, whatever happens to the clocks."""

import os
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st

from punctual.contract.cron import END_S, NAMED, Schedule, doubt, parse
from tests.punctual.contract.walked import DAY_S, Asked, Walk

#: All zones of tzdata, two decades, instead of one decade of those whose clocks do the oddest things.
LONG = bool(os.environ.get("PUNCTUAL_LONG"))
ALL = (files("tzdata") / "zones").read_text().split()
ODD = [
    "Africa/Casablanca",  # an hour back for each Ramadan
    "America/Havana",  # midnight does not exist, and comes twice
    "America/St_Johns",  # changed at one minute past midnight
    "Asia/Pyongyang",  # half an hour back in 2015, and forth in 2018
    "Australia/Lord_Howe",  # half an hour
    "Europe/Berlin",
    "Pacific/Apia",  # had no 30 December 2011
]
DECADES = [2008, 2026] if LONG else [2008]

TYPICAL = [
    Asked("30 2 * * *", [2], [30]),
    Asked("0 0 * * *", [0], [0]),
    Asked("0 9 * * 1-5", [9], [0], weekdays=range(1, 6)),
    Asked("15 1 1 * *", [1], [15], days=[1]),
    Asked("59 23 29 2 *", [23], [59], days=[29], months=[2]),
    Asked("0,20,40 1-3 * * SUN", range(1, 4), [0, 20, 40], weekdays=[0]),
    Asked("5 0,12 13 * FRI", [0, 12], [5], days=[13], weekdays=[5]),
    Asked("10 */3 * 3,10-12 *", range(0, 24, 3), [10], months=[3, 10, 11, 12], wild=True),
]
NIGHTLY = Asked("20,50 0-3 * * *", range(4), [20, 50])
QUARTERS = Asked("*/15 * * * *", None, range(0, 60, 15), wild=True)


def times(text: str, zone: str, start: int, end: int) -> list[int]:
    """Return the times of a schedule from `start` up to `end`."""
    schedule = Schedule(parse(text), zone)
    found: list[int] = []
    moment = schedule.after(start - 1, end - 1)
    while moment is not None:
        assert moment >= start if not found else moment > found[-1]
        found.append(moment)
        moment = schedule.after(moment, end - 1)
    return found


def second(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def shown(moments: Iterable[int], zone: str) -> list[str]:
    return [datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%d %H:%M%z")[:-2] for moment in moments]


@pytest.mark.parametrize("year", DECADES)
@pytest.mark.parametrize("zone", ODD)
def test_ten_years_are_whole_where_clocks_do_the_oddest_things(zone: str, year: int) -> None:
    walk = Walk(zone, second(f"{year}-01-01"), second(f"{year + 10}-01-01"))

    assert walk.changes or year > DECADES[0]
    assert all(later - sooner > 2 * DAY_S for sooner, later in pairwise(walk.changes))
    for asked in TYPICAL:
        assert times(asked.text, zone, walk.start, walk.end) == walk.due(asked), asked.text
    changes_are_whole(walk)
    assert not LONG or times(QUARTERS.text, zone, walk.start, walk.end) == walk.due(QUARTERS)


def changes_are_whole(walk: Walk) -> None:
    """Check what is dense around each change of clocks, and what comes next from any quarter of an hour there."""
    for change in walk.changes:
        around = Walk(walk.zone, change - DAY_S // 2, change + DAY_S // 2)
        assert times(QUARTERS.text, walk.zone, around.start, around.end) == around.due(QUARTERS), walk.zone
        schedule, due = Schedule(NIGHTLY.text, walk.zone), around.due(NIGHTLY)
        for moment in range(around.start, due[-1], 900):
            assert schedule.after(moment) == due[bisect_right(due, moment)], (walk.zone, moment)


@pytest.mark.skipif(not LONG, reason="PUNCTUAL_LONG=1 goes through all zones")
@pytest.mark.parametrize("year", DECADES)
def test_ten_years_are_whole_in_every_zone(year: int) -> None:
    """Zones whose clocks always show the same are walked through once; the others are compared by one schedule."""
    known: dict[bytes, list[int]] = {}
    for zone in ALL:
        walk = Walk(zone, second(f"{year}-01-01"), second(f"{year + 10}-01-01"))
        same = blake2b(walk.walls.tobytes()).digest()
        nightly = times(TYPICAL[0].text, zone, walk.start, walk.end)
        if same not in known:
            assert all(later - sooner > 2 * DAY_S for sooner, later in pairwise(walk.changes)), zone
            known[same] = nightly
            changes_are_whole(walk)
            for asked in TYPICAL:
                assert times(asked.text, zone, walk.start, walk.end) == walk.due(asked), (zone, asked.text)
        assert nightly == known[same], zone


@pytest.mark.parametrize(
    ("text", "zone", "start", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12", ["29 03:00+02", "30 02:30+02"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12", ["25 02:30+02", "26 02:30+01"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12", ["29 03:00+02", "30 02:30+02"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-24T12", ["25 02:30+02", "26 02:30+01"]),
        ("0,30 2,3 * * *", "Europe/Berlin", "2026-03-28T12", ["29 03:00+02", "29 03:30+02", "30 02:00+02"]),
        ("*/15 * * * *", "Europe/Berlin", "2026-03-29T01:30", ["29 01:30+01", "29 01:45+01", "29 03:00+02"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T02:30", ["25 02:30+02", "25 02:00+01", "25 02:30+01"]),
        ("*/30 2 25 10 *", "Europe/Berlin", "2026-10-25T02:30", ["25 02:30+02", "25 02:00+01", "25 02:30+01"]),
        ("0 */2 * * *", "Europe/Berlin", "2026-03-29T00", ["29 00:00+01", "29 04:00+02"]),
        ("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12", ["30 02:00+02", "30 02:20+02"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T03:00", ["26 02:30+01", "27 02:30+01"]),
        ("0 0 * * *", "America/Havana", "2026-03-07T12", ["08 01:00-04", "09 00:00-04"]),
        ("0 0 * * *", "America/Havana", "2026-10-31T12", ["01 00:00-04", "02 00:00-05"]),
        ("30 2 * * *", "Pacific/Apia", "2011-12-29T12", ["31 00:00+14", "31 02:30+14"]),
        ("0 */4 * * *", "Australia/Lord_Howe", "2025-10-05T00", ["05 00:00+10", "05 04:00+11", "05 08:00+11"]),
    ],
)
def test_where_clocks_are_changed(text: str, zone: str, start: str, expected: list[str]) -> None:
    begin = second(start, zone)

    assert shown(times(text, zone, begin, begin + 3 * DAY_S)[: len(expected)], zone) == expected


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    """Draw a schedule of seconds, minutes and hours, some of them wild, on some weekdays."""

    def field(top: int) -> tuple[str, list[int]]:
        step = draw(st.integers(1, top))
        if draw(st.booleans()):
            return f"*/{step}", list(range(0, top, step))
        values = draw(st.lists(st.integers(0, top - 1), min_size=1, max_size=4))
        return ",".join(map(str, values)), values

    (seconds, of_seconds), (minutes, of_minutes), (hours, of_hours) = field(60), field(60), field(24)
    weekdays = draw(st.sets(st.integers(0, 6), min_size=1))
    text = f"{seconds} {minutes} {hours} * * {','.join(map(str, weekdays))}"
    wild = "*" in minutes + hours
    return Asked(text, of_hours, of_minutes, weekdays=weekdays, seconds=of_seconds, wild=wild)


@settings(max_examples=60, deadline=None)
@given(asked(), st.sampled_from(ALL), st.integers(second("1974-01-01"), second("2036-01-01")))
def test_a_night_is_whole_second_by_second_in_any_zone(asked: Asked, zone: str, near: int) -> None:
    year = Walk(zone, near, near + 400 * DAY_S, step=900)
    change = next(iter(year.changes), near)
    start = (change // 900 - 12) * 900
    night = Walk(zone, start, start + 24 * 900, step=1)

    due = night.due(asked)[:500]

    assert times(asked.text, zone, night.start, (due[-1] + 1) if len(due) == 500 else night.end) == due


@given(st.sampled_from(TYPICAL), st.sampled_from(ODD), st.integers(0, second("2037-01-01")), st.integers(0, 400))
def test_what_comes_next_is_the_same_from_any_moment_before(asked: Asked, zone: str, moment: int, back: int) -> None:
    schedule = Schedule(asked.text, zone)
    first = schedule.after(moment)
    assert first is not None

    assert first > moment
    assert schedule.after(first - 1) == first
    assert schedule.after(max(moment, first - back)) in (first, schedule.after(first))
    assert schedule.after(moment, first) == first
    assert schedule.after(moment, first - 1) is None


@pytest.mark.parametrize("zone", ODD)
def test_times_are_counted_as_they_are_gone_through(zone: str) -> None:
    start, end = second("2008-01-01"), second("2018-01-01")
    changes = Walk(zone, start, end).changes
    for asked in [*TYPICAL, NIGHTLY, QUARTERS]:
        schedule = Schedule(asked.text, zone)
        due = times(asked.text, zone, start, end)
        assert schedule.number(start - 1, end - 1) == len(due), asked.text
        for change in changes:
            for after, until in pairwise(range(change - 9_000, change + 9_000, 1_500)):
                expected = bisect_right(due, until) - bisect_right(due, after)
                assert schedule.number(after, until) == expected, (asked.text, after, until)
    assert schedule.number(end, start) == 0


def test_what_is_rare_is_found_at_once_over_forty_years() -> None:
    start, found = second("2073-01-01"), second("2112-02-29", "Europe/Berlin")

    assert Schedule("0 0 * 2 MON#5", "Europe/Berlin").after(start) == found
    assert Schedule("* * * 2 MON#5", "Europe/Berlin").after(start) == found


def test_time_ends_before_python_does() -> None:
    yearly = Schedule("0 0 1 1 *", "UTC")

    assert shown([yearly.after(END_S - 366 * DAY_S) or 0], "UTC") == ["01 00:00+00"]
    assert yearly.after(END_S) is None
    assert yearly.after(10**12) is None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        *NAMED.items(),
        (" 0  9 * * mon-fri ", "0 9 * * mon-fri"),
        ("*/5 * * * * *", "*/5 * * * * *"),
        ("0 12 L * *", "0 12 L * *"),
        ("0 12 LW * *", "0 12 LW * *"),
        ("0 12 * * 5L", "0 12 * * 5L"),
        ("0 0 31 1,2 *", "0 0 31 1,2 *"),
        ("0 0 30 2 1", "0 0 30 2 1"),
        ("0 0 1 1 7", "0 0 1 1 7"),
    ],
)
def test_schedules_are_five_or_six_fields_or_a_name(text: str, fields: str) -> None:
    assert parse(text) == fields
    assert Schedule(fields, "UTC").after(0) is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a schedule. Use 5 fields (minute, hour, day of month, month, day of week), or 6"),
        ("* * * *", "is not a schedule. Use 5 fields"),
        ("* * * * * * *", "is not a schedule. Use 5 fields"),
        ("\u0661 * * * *", "is not a schedule. Use 5 fields"),
        ("1," * 200 + "1 * * * *", "is not a schedule. Use 5 fields"),
        (
            "60 * * * *",
            "'60 * * * *' is not a schedule: its minute is invalid. See docs/reference/recurring-messages.md",
        ),
        ("60 * * * * *", "is not a schedule: its second is invalid"),
        ("0 24 * * *", "is not a schedule: its hour is invalid"),
        ("0 0 32 * *", "is not a schedule: its day-of-month is invalid"),
        ("0 0 * 13 *", "is not a schedule: its month is invalid"),
        ("0 0 * * 8", "is not a schedule: its day-of-week is invalid"),
        ("0 0 ? * *", "is not a schedule: its day-of-month is invalid"),
        ("*/0 * * * *", "is not a schedule: its minute is invalid"),
        ("0 0 30 2 *", "'0 0 30 2 *' never occurs: none of its months has that day"),
        ("0 0 31 4,6 *", "never occurs: none of its months has that day"),
        ("@reboot", "'@reboot' is not the name of a schedule. Use one of @hourly, @daily, @midnight"),
        ("@Daily", "is not the name of a schedule"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"schedule|occurs") as raised:
        parse(text)

    assert says in str(raised.value)


@given(st.text("0123456789*/,-#LW?MON ", max_size=24) | st.text(max_size=300))
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    try:
        fields = parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - both ends are fine
    else:
        Schedule(fields, "Europe/Berlin").after(0)


def test_the_library_is_the_one_that_has_been_read() -> None:
    """What Schedule does beside it: it sets `dt`, which has no zone, and then asks for what is next."""
    calendar = CronSim("30 2 * * *", datetime(2026, 3, 28, 12))  # noqa: DTZ001 - a clock on the wall
    assert next(calendar) == datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001

    calendar.dt = datetime(2026, 1, 1, 2, 30)  # noqa: DTZ001
    assert next(calendar) == datetime(2026, 1, 2, 2, 30)  # noqa: DTZ001
    with pytest.raises(CronSimError, match=r"^Bad day-of-month$"):
        CronSim("0 0 30 2 *", datetime.now(UTC))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "*/90 * * * *",
            "the step of */90 is longer than the minute field, which has 60 values: it matches only the first",
        ),
        ("0 */36 * * *", "longer than the hour field, which has 24 values"),
        ("*/75 * * * * *", "the second field"),
        ("0 0 1-15/40 * *", "the first value of 1-15"),
        ("*/60 */24 * * *", None),
        ("*/45 * * * *", None),
        ("@daily", None),
    ],
)
def test_a_step_longer_than_its_field_is_doubtful(text: str, says: str | None) -> None:
    found = doubt(parse(text))

    assert (found is None) == (says is None)
    assert says is None or says in (found or "")
