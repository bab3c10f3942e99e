"""Times and durations in headers: valid and refused texts, and the rounding of fractions."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual.contract.times import moment_of, parse_duration, parse_seconds, parse_time, write_time

LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1767225600000", 1_767_225_600_000),
        ("999999999999999", 999_999_999_999_999),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01t00:00:00z", 1_767_225_600_000),
        ("2026-01-01 00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T02:30:00+02:30", 1_767_225_600_000),
        ("2025-12-31T14:00:00-10:00", 1_767_225_600_000),
        ("2026-01-01T00:00:00-00:00", 1_767_225_600_000),
        ("2024-02-29T12:00:00Z", 1_709_208_000_000),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("9999-12-31T23:59:59.999Z", LAST_MS),
        ("1", 1),
        ("99999999", 99_999_999),
        ("100000000000", 100_000_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),  # a leap second is the second after it
        ("2016-12-31T23:59:60.25Z", 1_483_228_800_250),
        ("2017-01-01T00:59:60+01:00", 1_483_228_800_000),
        ("9999-12-31T23:59:60Z", LAST_MS + 1),
    ],
)
def test_a_time_is_epoch_milliseconds_or_rfc_3339_with_a_zone(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    ("fraction", "milliseconds"),
    [("5", 500), ("001", 1), ("0001", 1), ("000000000001", 1), ("123", 123), ("1231", 124), ("9991", 1000), ("000", 0)],
)
def test_a_fraction_of_a_millisecond_rounds_up_so_that_no_message_is_early(fraction: str, milliseconds: int) -> None:
    assert parse_time(f"2026-01-01T00:00:00.{fraction}Z") == 1_767_225_600_000 + milliseconds
    assert parse_duration(f"PT1.{fraction}S") == 1000 + milliseconds
    assert parse_duration(f"PT1,{fraction}S") == 1000 + milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "-1",
        "1.5",
        "1e3",
        "١٢٣",  # digits, but not of ASCII
        "tomorrow",
        "2026-01-01",
        "2026-01-01T00:00:00",  # no zone
        "2026-01-01T00:00:00 Z",
        "2026-01-01T00:00Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567890123Z",
        "2026-01-01T00:00:00+0200",
        "2026-01-01T00:00:00+02",
        "2026-01-01T00:00:00Z\n",
        "20260101T000000Z",
        "2026-W01-1T00:00:00Z",
    ],
)
def test_anything_else_is_no_time_and_the_sentence_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time. Use epoch milliseconds, or RFC 3339 with a zone: 2030-"):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-29T00:00:00Z",  # no leap year
        "2026-13-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "2026-01-01T00:60:00Z",
        "2016-12-31T23:59:61Z",
        "2016-12-31T23:60:60Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+01:60",
        "0000-01-01T00:00:00Z",
    ],
)
def test_a_time_that_no_calendar_has_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    ["1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01", "0001-01-01T00:00:00+23:59"],
)
def test_a_time_before_1970_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is before 1970"):
        parse_time(text)


@pytest.mark.parametrize("text", ["100000000", "1893456000", "99999999999"])
def test_a_time_that_can_only_be_seconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"looks like seconds.* use {text}000$"):
        parse_time(text)

    assert parse_duration(text) == int(text)


@pytest.mark.parametrize("parse", [parse_time, parse_duration])
def test_more_than_15_digits_are_a_mistake_in_the_unit(parse: type[int]) -> None:
    with pytest.raises(ValueError, match=r"more than 15 digits. Give milliseconds, not a smaller unit"):
        parse("1767225600000000")


@pytest.mark.parametrize("parse", [parse_time, parse_duration])
def test_a_sentence_shows_only_the_beginning_of_the_value(parse: type[int]) -> None:
    with pytest.raises(ValueError, match="is no") as raised:
        parse("x" * 1_000_000)

    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("900000", 900_000),
        ("PT15M", 900_000),
        ("PT1H1M1S", 3_661_000),
        ("P30D", 2_592_000_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("PT0S", 0),
        ("PT0.25S", 250),
        ("PT36H", 129_600_000),
        ("PT90M", 5_400_000),
        ("PT1H30S", 3_630_000),
        ("15m", 900_000),
        ("1h30m", 5_400_000),
        ("5d", 432_000_000),
        ("1w1d1h1m1s1ms", 694_861_001),
        ("250ms", 250),
        ("0.25s", 250),
        ("1.0001s", 1_001),
        ("90m", 5_400_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_milliseconds_or_units_or_iso_8601_of_weeks_days_and_below(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "P1Y",
        "P1M",  # a month; PT1M is a minute
        "P1Y2M3D",
        "P1W2D",
        "PT1.5H",
        "PT.5S",
        "PT5",
        "-PT5S",
        "PT-5S",
        "+PT5S",
        "pt5s",
        "5S",
        "1y",
        "5m1h",
        "1.5h",
        "-5s",
        "5 s",
        "s",
        "5s\n",
        "٣s",
        "1s" * 1_000,
        "PT1S1M",
        "P٣D",
        "PT1S\n",
    ],
)
def test_anything_else_is_no_duration_years_and_months_among_it(text: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"is not a duration. Use 90s, 15m, 1h30m or 5d, milliseconds, or ISO 8601 without years and months",
    ):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P99999999999D", "PT9999999999999S", "P" + "9" * 5000 + "W", "9" * 100 + "d"])
def test_a_duration_beyond_15_digits_of_milliseconds_is_refused_in_any_notation(text: str) -> None:
    with pytest.raises(ValueError, match="is too long"):
        parse_duration(text)


@given(
    st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001 - the zone is drawn
    st.integers(min_value=-23 * 60, max_value=23 * 60),
)
def test_what_python_writes_is_read_back_never_early_and_less_than_a_millisecond_late(
    naive: datetime, minutes: int
) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    exact = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    read_us = parse_time(moment.isoformat(timespec="microseconds")) * 1000

    assert 0 <= read_us - exact < 1000


@given(
    st.integers(0, 10_000), st.integers(0, 1_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 999)
)
def test_the_parts_of_a_duration_add_up(days: int, hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    text = f"P{days}DT{hours}H{minutes}M{seconds}.{milliseconds:03}S"
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)

    assert parse_duration(text) == length // timedelta(milliseconds=1)


@given(st.integers(0, 999_999_999_999_999) | st.integers(10**7, 10**12))
def test_digits_are_milliseconds_as_they_are(number: int) -> None:
    assert parse_duration(str(number)) == number
    assert parse_time(write_time(number)) == number
    if not 10**8 <= number < 10**11:  # these are seconds
        assert parse_time(str(number)) == number


@given(st.text(max_size=40) | st.from_regex(r"P[0-9WDTHMS.,]{0,30}", fullmatch=True))
def test_whatever_a_header_says_it_is_read_or_refused_within_bounds(text: str) -> None:
    for parse in (parse_time, parse_duration, parse_seconds):
        with suppress(ValueError):
            assert 0 <= parse(text) < 10**15


def test_seconds_are_digits_and_longer_numbers_are_refused() -> None:
    assert [parse_seconds(text) for text in ("0", "1893456000", "99999999999")] == [
        0,
        1_893_456_000_000,
        99_999_999_999_000,
    ]
    for text, why in (
        ("100000000000", "looks like milliseconds"),
        ("-1", "is not a time"),
        ("²", "is not a time"),
        ("", "is no"),
    ):
        with pytest.raises(ValueError, match=why):
            parse_seconds(text)


def test_an_invalid_moment_is_an_error_of_ours() -> None:
    assert moment_of(253_402_300_799_999).year == 9999
    for at_ms in (253_402_300_800_000, 10**15 - 1, 1 << 70, -1):
        with pytest.raises(ValueError, match=f"^{at_ms} is not a time before the year 10000 in epoch milliseconds$"):
            moment_of(at_ms)
    for text in ("0000-01-01T00:00:00Z", "2030-02-30T00:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:00:00+24:00"):
        with pytest.raises(ValueError, match=r"is not a time: its date, hour or zone does not exist$"):
            parse_time(text)
