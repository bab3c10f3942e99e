"""A histogram as Prometheus counts."""

from app.base.histogram import Histogram


def test_buckets_are_cumulative_and_a_value_at_a_bound_is_within_it() -> None:
    histogram = Histogram((0.001, 0.25, 60))
    histogram.add(0.001, 3)
    histogram.add(0.2)
    histogram.add(61)
    assert histogram.buckets() == [("0.001", 3), ("0.25", 4), ("60", 4), ("+Inf", 5)]
    assert abs(histogram.sum - 61.203) < 1e-9
