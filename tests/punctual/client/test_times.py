"""A message is never due earlier than was asked, in any zone."""

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctual import InvalidDueTimeError, InvalidOptionError
from punctual.client.times import due_after_ms, epoch_ms, span_ms


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9998, 1, 1)), st.integers(-1439, 1439))  # noqa: DTZ001 - hypothesis adds no zone here
def test_a_due_time_is_the_next_whole_millisecond_in_any_zone(naive: datetime, offset_minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    exact = Fraction((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), 1000)

    assert 0 <= epoch_ms(moment) - exact < 1


def test_whole_milliseconds_stay_unchanged() -> None:
    assert epoch_ms(datetime(2030, 1, 1, 0, 0, 0, 123000, tzinfo=UTC)) == 1893456000123


def test_a_microsecond_more_is_the_next_millisecond() -> None:
    assert epoch_ms(datetime(2030, 1, 1, 0, 0, 0, 123001, tzinfo=UTC)) == 1893456000124


def test_both_sides_of_a_clock_change_are_an_hour_apart() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=0)
    second = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1)

    assert epoch_ms(second) - epoch_ms(first) == 3_600_000


def test_a_naive_datetime_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(InvalidDueTimeError, match=r"no time zone.*datetime\.now\(timezone\.utc\)"):
        epoch_ms(datetime(2030, 1, 1))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize("moment", [1893456000, "2030-01-01T00:00:00Z", 1.5])
def test_numbers_and_text_are_refused_with_what_to_write_instead(moment: Any) -> None:
    with pytest.raises(InvalidDueTimeError, match=r"not a datetime: write at=datetime"):
        epoch_ms(moment)


def test_moments_before_1970_are_refused() -> None:
    with pytest.raises(InvalidDueTimeError, match="before 1970"):
        epoch_ms(datetime(1969, 12, 31, tzinfo=UTC))


def test_delays_round_up_too() -> None:
    assert due_after_ms(timedelta(microseconds=1)) == 1
    assert due_after_ms(timedelta(0)) == 0
    assert due_after_ms(timedelta(days=365)) == 31_536_000_000
    assert span_ms(timedelta(seconds=1, microseconds=1), "dedupe") == 1001


def test_negative_spans_are_refused() -> None:
    with pytest.raises(InvalidDueTimeError, match="negative"):
        due_after_ms(timedelta(seconds=-1))
    with pytest.raises(InvalidOptionError, match=r"max_late=.* is negative"):
        span_ms(timedelta(seconds=-1), "max_late")


def test_spans_that_are_no_timedelta_are_refused() -> None:
    number: Any = 30
    with pytest.raises(InvalidDueTimeError, match=r"write after=timedelta\(seconds=30\)"):
        due_after_ms(number)
    with pytest.raises(InvalidOptionError, match=r"write dedupe=timedelta"):
        span_ms(number, "dedupe")
