"""The calendar of cron expressions: as CronSim has it, and at a cost that no text can raise."""

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from random import Random
from types import FrameType

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st

from punctual.contract import cron, zones
from punctual.contract.calendar import Calendar, NeverMatches
from tests.harness.fuzz import share

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - this clock has no zone
#: Calls of functions for one text, parsed and with its next time in a zone that is not cached yet. A text that
#: never matches took a walk through fifty years of days: 300,000.
_MOST_CALLS = 3_000

NEVER = [
    "* * * */27,2-28 */1 1#5",
    "0 0 */40,2-7 * 1#2",
    "*/7 */7 */22,2,3 * 1#2,2#3,3#5,4#2,5#3,6#5",
    "* * * */31,8-9 2 0#5",
    "0 0 31 2,4,6,9,11 */2",
    "0 0 30 2 *",
]
RARE = [
    "* * * 2 1#5",
    "0 0 L */12 1#5",
    "* * * 29 2 *",
    "*/59 */59 */23 */29 2 " + ",".join(f"{day}#5" for day in range(8)),
    ",".join(f"*/{step}" for step in range(1, 50)) + " * * * *",
    "*," * 120 + "* * * * *",
    "* * * * " + ",".join(f"{n % 7}#{n % 5 + 1},{n % 7}L" for n in range(28)),
    "*/7 * LW 2 *",
]


def calls(work: Callable[[], object]) -> int:
    """Return the number of function calls in a block, a cost that is the same on every machine."""
    number = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


def _fresh(text: str, zone: str, moment: int) -> None:
    """Parse a text and compute its next time, with empty caches of texts and zones."""
    for kept in (cron._judge, cron._calendar, cron.schedule, zones._stretches):
        kept.cache_clear()
    try:
        cron.schedule(cron.parse(text), zones.parse_zone(zone)).after(moment)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - both ends are fine


@pytest.mark.parametrize("zone", ["UTC", "Africa/Casablanca", "America/Havana", "Europe/Dublin", "Pacific/Apia"])
@pytest.mark.parametrize("text", NEVER + RARE)
def test_no_text_costs_much(text: str, zone: str) -> None:
    assert len(text) <= cron.LETTERS
    for moment in (0, 1_325_203_200, 1_774_746_000, 3_254_000_000, 90_000_000_000):
        assert calls(partial(_fresh, text, zone, moment)) < _MOST_CALLS


@settings(max_examples=share(60), deadline=None)
@given(
    st.text("0123456789*/,-#LW ", max_size=256),
    st.sampled_from(["UTC", "Africa/Casablanca", "Antarctica/Troll"]),
    st.integers(0, 1 << 37),
)
def test_no_text_at_all_costs_much(text: str, zone: str, moment: int) -> None:
    assert calls(lambda: _fresh(text, zone, moment)) < _MOST_CALLS


@pytest.mark.parametrize("text", NEVER)
def test_what_can_never_match_is_refused_and_the_refusal_is_kept(text: str) -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match="never occurs: none of its months has that day"):
            cron.parse(text)

    refused()
    kept = cron._judge.cache_info().hits
    refused()
    assert cron._judge.cache_info().hits == kept + 1


def _expression(random: Random) -> str:
    """Return an expression as people, and those who try everything, write it."""

    def term(low: int, high: int, kind: str) -> str:
        begin = random.randint(low, high)
        special = {
            "day": ["L", "LW", "29", "30", "31"],
            "weekday": [f"{begin}L", f"{begin}#{random.randint(1, 5)}", f"{begin}#5"],
        }
        if kind in special and random.random() < 0.2:
            return random.choice(special[kind])
        text = random.choice([str(begin), str(begin), f"{begin}-{random.randint(begin, high)}", "*"])
        return text + (f"/{random.randint(1, 12)}" if random.random() < 0.3 else "")

    def field(low: int, high: int, kind: str = "") -> str:
        if random.random() < 0.3:
            return random.choice(["*", "*", f"*/{random.randint(1, high + 3)}"])
        return ",".join(term(low, high, kind) for _ in range(random.choice([1, 1, 1, 2, 3])))

    months = random.choice(["2", "2", "feb,4", field(1, 12), field(1, 12), "*", "*"])
    fields = [field(0, 59), field(0, 23), field(1, 31, "day"), months, field(0, 7, "weekday")]
    return " ".join(([field(0, 59)] if random.random() < 0.4 else []) + fields)


@pytest.mark.core
def test_times_are_those_of_cronsim() -> None:
    random = Random(15)  # noqa: S311 - the same each time
    compared = 0
    for _ in range(3_000):
        text, moment = _expression(random), random.randrange(random.choice([1 << 31, 1 << 37]))
        try:
            theirs = CronSim(text, _EPOCH + timedelta(seconds=moment))
        except CronSimError:
            with pytest.raises(CronSimError):
                Calendar(text)
            continue
        expected = [None if found is None else (found - _EPOCH) // timedelta(seconds=1) for found in _some(theirs)]
        try:
            calendar = Calendar(text)
        except NeverMatches:
            assert expected == [None], text
            continue
        found = calendar.after(moment)
        for one in expected:
            assert found == one, (text, moment)
            found = None if found is None else calendar.after(found)
            compared += 1
    assert compared > 5_000


@pytest.mark.core
def test_times_are_counted_at_a_cost_that_they_do_not_raise() -> None:
    random = Random(16)  # noqa: S311 - the same each time
    for _ in range(1_000):
        try:
            calendar = Calendar(_expression(random))
        except CronSimError:
            continue
        begin = random.randrange(1 << 31)
        moments, moment = [begin], calendar.after(begin)
        while moment is not None and len(moments) < 30:
            moments.append(moment)
            moment = calendar.after(moment)
        for place, moment in enumerate(moments):
            assert calendar.number(begin, moment) == place
            assert calendar.number(begin, moment - 1) == max(0, place - 1)
    assert cron.Schedule("* * * * * *", "UTC").number(-1, (1 << 31) - 1) == 1 << 31
    assert calls(lambda: cron.Schedule("* * * * * *", "Europe/Dublin").number(0, 1 << 31)) < 100_000


def _some(times: CronSim) -> list[datetime | None]:
    """Return the next three times, or that there is none within fifty years."""
    first = next(times, None)
    return [None] if first is None else [first, next(times), next(times)]


def test_the_rarest_day_comes_after_forty_years() -> None:
    assert Calendar("0 0 * 2 1#5").after(_seconds("2044-03-01")) == _seconds("2072-02-29")
    assert Calendar("0 0 * 2 1#5").after(_seconds("2072-03-01")) == _seconds("2112-02-29")
    assert Calendar("0 0 * 2 1#5").after(_seconds("9990-01-01")) is None


def _seconds(date: str) -> int:
    return (datetime.fromisoformat(date) - _EPOCH) // timedelta(seconds=1)
