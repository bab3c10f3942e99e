"""Cron schedules in time zones, compared with walks through years of clocks, step by step (`walked`)."""

import os
from bisect import bisect_right
from hashlib import blake2b
from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from punctual.contract.cron import Schedule
from tests.punctual.contract.test_cron import second, times
from tests.punctual.contract.walked import DAY_S, Asked, Walk

pytestmark = pytest.mark.slow

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
    """Check dense times around each clock change, and the next time from each quarter of an hour there."""
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


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    """Draw a schedule of seconds, minutes and hours, some of them wildcards, on some weekdays."""

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
def test_the_next_time_is_the_same_from_any_earlier_moment(asked: Asked, zone: str, moment: int, back: int) -> None:
    schedule = Schedule(asked.text, zone)
    first = schedule.after(moment)
    assert first is not None

    assert first > moment
    assert schedule.after(first - 1) == first
    assert schedule.after(max(moment, first - back)) in (first, schedule.after(first))
    assert schedule.after(moment, first) == first
    assert schedule.after(moment, first - 1) is None


@pytest.mark.parametrize("zone", ODD)
def test_counting_times_equals_stepping_through_them(zone: str) -> None:
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
