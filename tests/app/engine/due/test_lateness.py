"""How late deliveries of the last minute were."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.due.lateness import BOUNDS, Lateness

DAY_MS = 86_400_000


class Moved(Lateness):
    """Goes by a clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        super().__init__(lambda: self.now_ms)


def test_the_bounds_are_exact_below_8_ms_then_ten_a_decade_up_to_about_a_day() -> None:
    assert BOUNDS[:12] == (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
    assert list(BOUNDS) == sorted(set(BOUNDS))
    assert BOUNDS[-1] == 80_000_000
    assert all(upper / lower <= 1.34 for lower, upper in itertools.pairwise(BOUNDS[9:]))


def test_without_deliveries_no_lateness_is_reported() -> None:
    assert Moved().histogram() == {}


@pytest.mark.parametrize(
    ("late", "bound"), [(-3, "0"), (0, "0"), (1, "1"), (7, "8"), (8, "8"), (9, "10"), (13, "16"), (2 * DAY_MS, "inf")]
)
def test_a_delivery_counts_under_the_first_bound_that_is_not_below_it(late: int, bound: str) -> None:
    lateness = Moved()
    lateness.add(late)

    assert lateness.histogram() == {bound: 1}


@given(st.lists(st.integers(0, 2 * DAY_MS), max_size=50))
def test_every_delivery_is_counted_once(late: list[int]) -> None:
    lateness = Moved()
    for one in late:
        lateness.add(one)

    assert sum(lateness.histogram().values()) == len(late)


def test_histograms_of_workers_add_up() -> None:
    one, other, both = Moved(), Moved(), Moved()
    for late in (1, 5, 50):
        one.add(late)
        both.add(late)
    for late in (5, 500):
        other.add(late)
        both.add(late)
    total = dict(one.histogram())
    for bound, count in other.histogram().items():
        total[bound] = total.get(bound, 0) + count

    assert total == both.histogram()


def test_a_minute_later_it_is_forgotten() -> None:
    lateness = Moved()
    lateness.add(5)
    lateness.now_ms += 50_000
    lateness.add(6)

    assert lateness.histogram() == {"5": 1, "6": 1}
    lateness.now_ms += 15_000
    assert lateness.histogram() == {"6": 1}
    lateness.now_ms += 60_000
    assert lateness.histogram() == {}


def test_it_takes_no_more_room_with_time() -> None:
    lateness = Moved()
    for _ in range(100):
        lateness.now_ms += 10_000
        lateness.add(5)

    assert len(lateness._slots) <= 7
