"""Messages that were not scanned are assumed to be spread evenly over the rest of their hour."""

import pytest

from app.serve.search.timeline_counts import HOUR_MS, MINUTE_MS, UnseenEstimate
from tests.tables.rows import NOW

HOUR = NOW - NOW % HOUR_MS


def at(minute: float) -> int:
    return HOUR + round(minute * MINUTE_MS)


@pytest.mark.parametrize(
    ("since", "until", "about"),
    [
        (20, 30, 0),  # looked at
        (30, 31, 10),  # of 300 unseen messages in 30 minutes
        (30, 60, 300),
        (29, 31, 10),
        (60, 61, 2),  # another hour, which was not scanned: 120 in 60 minutes
        (59, 61, 12),
        (120, 121, 0),  # no messages, by its counter
    ],
)
def test_the_rest_of_an_hour_is_spread_over_the_time_that_was_not_scanned(
    since: float, until: float, about: int
) -> None:
    hours = {HOUR // HOUR_MS: 400, HOUR // HOUR_MS + 1: 120}
    seen = [(at(minute), at(minute + 1), 100 if minute == 7 else 0) for minute in range(180)]
    unseen = UnseenEstimate(lambda hour: hours.get(hour, 0), seen, [(at(30), at(180))])
    assert unseen.about(at(since), at(until)) == about


def test_time_outside_the_requested_span_has_its_share() -> None:
    unseen = UnseenEstimate(lambda _: 600, [(at(0), at(10), 0), (at(10), at(20), 0)], [(at(10), at(20))])
    assert unseen.about(at(10), at(20)) == 120  # of 600 in the 50 minutes that were not scanned


def test_with_more_scanned_than_counted_the_estimate_is_zero() -> None:
    unseen = UnseenEstimate(lambda _: 5, [(at(0), at(30), 9), (at(30), at(60), 0)], [(at(30), at(60))])
    assert unseen.about(at(30), at(60)) == 0
