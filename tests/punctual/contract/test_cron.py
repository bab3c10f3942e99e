"""Cron schedules in time zones: every time of the calendar once, whatever happens to the clocks."""

from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from punctual.contract.cron import END_S, NAMED, Schedule, doubt, parse

DAY_S = 86_400


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


def test_rare_times_are_found_at_once_over_forty_years() -> None:
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
def test_an_invalid_schedule_is_refused_with_a_reason(text: str, says: str) -> None:
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


def test_the_library_still_has_the_internals_that_schedule_uses() -> None:
    """The expressions that Schedule adds: it sets `dt`, which has no zone, and then gets the next time."""
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
