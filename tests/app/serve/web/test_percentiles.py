"""Percentiles of merged histograms."""

from app.engine.due.lateness import BOUNDS, Lateness
from app.serve.web.overview import Percentiles, percentiles


def test_without_deliveries_there_is_no_percentile() -> None:
    none = Percentiles(count=0, p50_ms=None, p99_ms=None)
    assert percentiles([{}, {"5": 0}]) == none
    assert percentiles([]) == none


def test_one_delivery_is_every_percentile() -> None:
    late = percentiles([{"5": 0, "10": 1, "20": 0}])
    assert (late.p50_ms, late.p99_ms) == (10, 10)


def test_a_percentile_is_the_bound_for_its_share_of_deliveries() -> None:
    late = percentiles([{"5": 50, "10": 49, "20": 1}])
    assert (late.count, late.p50_ms, late.p99_ms) == (100, 5, 10)
    late = percentiles([{"5": 49, "10": 49, "20": 2}])
    assert (late.p50_ms, late.p99_ms) == (10, 20)


def test_histograms_of_all_partitions_add_up() -> None:
    assert percentiles([{"5": 30, "10": 5}, {"5": 20, "10": 45}]) == percentiles([{"5": 50, "10": 50}])


def test_histograms_with_different_bounds_add_up_too() -> None:
    late = percentiles([{"5": 1}, {"2.5": 2}, {"50": 3}])
    assert (late.count, late.p50_ms, late.p99_ms) == (6, 5, 50)
    assert percentiles([{"2.5": 1}]).p50_ms == 2.5


def test_bounds_are_compared_as_numbers_and_not_as_text() -> None:
    assert percentiles([{"1000": 1, "5": 99}]).p99_ms == 5


def test_beyond_the_highest_bound_there_is_no_number() -> None:
    late = percentiles([{"5": 90, "60000": 0, "inf": 10}])
    assert (late.count, late.p50_ms, late.p99_ms) == (100, 5, None)


def test_counts_beyond_floating_point_stay_exact() -> None:
    assert percentiles([{"5": 2**60 + 1}, {"5": 2**60}]).count == 2**61 + 1


def test_counts_of_workers_can_be_read() -> None:
    counted = Lateness(lambda: 0)
    for late_ms in (0, 3, 3, BOUNDS[-1] + 1):
        counted.add(late_ms)
    assert percentiles([counted.histogram()]) == Percentiles(count=4, p50_ms=3, p99_ms=None)
