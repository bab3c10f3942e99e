"""Cron times that were planned by other rules of a zone: what clocks show stays, no time is lost or comes twice."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from punctual.contract.cron import Schedule
from punctual.contract.zone_data import zone_data
from tests.harness.zone_files import zones_in

ZONE = "Test/Town"
_HALF, _HOUR = 1_800, 3_600
Give = Callable[[str, str], None]


@pytest.fixture
def give(tmp_path: Path) -> Iterator[Give]:
    with zones_in(tmp_path) as given:
        yield given


def moment(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}Z").timestamp())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("fields", "rules", "before", "planned", "expected"),
    [
        ("0 9 * * *", "<-06>6", -5 * _HOUR, "2027-04-05T14:00", "2027-04-05T15:00"),
        ("0 9 * * *", "<+01>-1", 0, "2027-04-05T09:00", "2027-04-05T08:00"),
        ("0 9 * * *", "<+01>-1", _HOUR, "2027-04-05T08:00", "2027-04-05T08:00"),
        ("0 9 1 * *", "<+13>-13", -11 * _HOUR, "2027-04-01T20:00", "2027-03-31T20:00"),
        ("0 * * * *", "<+01>-1", 0, "2027-04-05T09:00", "2027-04-05T09:00"),
        ("0 * * * *", "<-01>1", 0, "2027-04-05T09:00", "2027-04-05T09:00"),
        ("0 */2 * * *", "<-01>1", 0, "2027-04-05T10:00", "2027-04-05T11:00"),
        ("0 0 1 1 *", "<+0530>-5:30", 5 * _HOUR, "2026-12-31T19:00", "2026-12-31T18:30"),
    ],
)
def test_clocks_show_the_same(
    give: Give, fields: str, rules: str, before: int, planned: str, expected: str, *, known: bool
) -> None:
    give(ZONE, rules)
    assert Schedule(fields, ZONE).replanned(moment(planned), before if known else None) == moment(expected)


@pytest.mark.parametrize(
    ("fields", "rules", "planned", "expected"),
    [
        # 9:00 by both rules, though it is the 10:00 of the new ones: that of 9:00 has not been yet
        ("0 9,10 * * *", "<+01>-1", "2027-04-05T09:00", "2027-04-05T08:00"),
        ("*/15 9-17 * * *", "<+01>-1", "2027-04-05T09:00", "2027-04-05T08:00"),
        # 9:00 has had the moment of 10:00 already
        ("0 9,10 * * *", "<+01>-1", "2027-04-05T10:00", "2027-04-06T08:00"),
        ("0 9,10 * * *", "<-01>1", "2027-04-05T10:00", "2027-04-05T11:00"),
        ("30 * * * *", "<+0030>-0:30", "2027-04-05T09:30", "2027-04-05T09:00"),
        ("* * * * *", "<+14>-14", "2027-04-05T09:30", "2027-04-05T09:30"),
    ],
)
def test_no_time_is_lost_or_comes_twice(give: Give, fields: str, rules: str, planned: str, expected: str) -> None:
    give(ZONE, rules)
    assert Schedule(fields, ZONE).replanned(moment(planned), 0) == moment(expected)


def test_a_new_or_removed_gap_loses_no_occurrence(give: Give) -> None:
    give(ZONE, "<+01>-1<+02>,M3.5.0,M10.5.0/3")
    nightly = Schedule("30 2 * * *", ZONE)
    skipped = moment("2027-03-28T01:00")
    assert nightly.replanned(moment("2027-03-28T01:30"), _HOUR) == skipped
    assert nightly.replanned(skipped, 2 * _HOUR) == skipped
    assert nightly.replanned(moment("2027-10-31T01:30"), _HOUR) == moment("2027-10-31T00:30")

    give(ZONE, "<+01>-1")
    assert nightly.replanned(skipped, 2 * _HOUR) == moment("2027-03-28T01:30")
    assert nightly.replanned(moment("2027-10-31T00:30"), 2 * _HOUR) == moment("2027-10-31T01:30")


def test_the_digest_of_the_zone_data_changes_with_one_rule(give: Give) -> None:
    give(ZONE, "<+01>-1")
    before = zone_data()
    give(ZONE, "<+02>-2")
    changed = zone_data()
    give(ZONE, "<+01>-1")

    assert before != changed
    assert zone_data() == before
