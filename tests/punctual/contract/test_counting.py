"""How many times a series has in a range: as many as one finds by going through them."""

import itertools
import random
import time
from datetime import UTC, datetime

import pytest

from punctual.contract.calendar import Calendar
from punctual.contract.counting import nth_after, planned_between
from punctual.contract.recurrence import Recurrence
from punctual.contract.zones import stretch_at

DAY_MS = 86_400_000
CRONS = (
    "30 2 * * *",
    "*/15 * * * *",
    "30 * * * *",
    "*/7 2,3 * * 0",
    "0 30 2 * * *",
    "*/20 * 1-3 * * *",
    "15 */2 * * 1-5",
)
ZONES = (None, "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/New_York")


def gone_through(rule: Recurrence, after_ms: int, to_ms: int) -> list[int]:
    found, at = [], rule.after(after_ms)
    while at is not None and at <= to_ms:
        found.append(at)
        at = rule.after(at)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_as_many_are_counted_as_there_are(seed: int) -> None:
    rnd = random.Random(seed)  # noqa: S311
    zone = rnd.choice(ZONES)
    rule = Recurrence(None, rnd.choice(CRONS), zone=zone)
    change = stretch_at(zone or "UTC", rnd.randrange(1_300_000_000, 1_900_000_000)).end
    after_ms = change * 1_000 - rnd.randrange(3 * DAY_MS)
    to_ms = after_ms + rnd.randrange(5 * DAY_MS)
    times = gone_through(rule, after_ms, to_ms)

    assert planned_between(rule, after_ms, to_ms) == len(times)
    assert planned_between(rule, after_ms, to_ms, 3) == min(3, len(times))
    assert nth_after(rule, after_ms, len(times) + 1, to_ms) is None
    for number, planned in itertools.islice(enumerate(times, 1), 3):
        assert nth_after(rule, after_ms, number, to_ms) == planned


@pytest.mark.parametrize("until_ms", [None, 10_000, 0])
def test_intervals_are_counted_up_to_their_end(until_ms: int | None) -> None:
    rule = Recurrence(1_500, None, anchor_ms=1_000, until_ms=until_ms)
    for after_ms, to_ms in itertools.product(range(-3_000, 12_000, 500), repeat=2):
        times = gone_through(rule, after_ms, to_ms)
        assert planned_between(rule, after_ms, to_ms) == len(times)
        assert nth_after(rule, after_ms, 2, to_ms) == (times[1] if len(times) > 1 else None)


def test_a_year_of_seconds_takes_no_longer_than_its_days() -> None:
    rule, begin = Recurrence(None, "* * * * * *", zone="Europe/Berlin"), 1_700_000_000_000
    since = time.process_time()

    assert planned_between(rule, begin, begin + 365 * DAY_MS) == 365 * 86_400
    assert time.process_time() - since < 5  # some milliseconds


@pytest.mark.parametrize("cron", ["* * * * * *", "0 0 29 2 *", "*/7 3 L * *", "0 9 * * 1-5"])
def test_many_years_are_counted_as_their_years_are(cron: str) -> None:
    rule = Recurrence(None, cron)
    years = [int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1_000) - 1 for year in range(1970, 2401)]
    of_each = [planned_between(rule, begin, end) for begin, end in itertools.pairwise(years)]

    assert planned_between(rule, years[0], years[-1]) == sum(of_each)


@pytest.mark.core
def test_a_thousand_years_take_little_longer_than_one() -> None:
    schedule = Calendar("* * * * * *")
    schedule.number(0, 5_000 * 86_400)  # the calendars of a year are kept

    def seconds(days: int) -> float:
        since = time.process_time()
        for _ in range(200):
            schedule.number(0, days * 86_400)
        return time.process_time() - since

    # The least of some tries: what else the machine does only adds to them.
    one, thousand = (min(seconds(days) for _ in range(7)) for days in (365, 365_250))
    assert thousand < 100 * one  # about 15 times; a loop over the months takes 500 times as long
