"""Progress records, summed."""

from benchmarks.progress import State, summed


def record(read: int, **pending: int) -> dict[str, object]:
    return {"positions": {"bench-requests": read, "bench-forwards": 5}, "pending": pending}


def test_partitions_are_summed_over_destinations_but_only_the_requests_topic_counts_as_read() -> None:
    records = [(100, record(10, orders=3, bills=1)), (101, record(20, orders=2))]

    assert summed(records, "bench-requests", 0) == State(2, 30, 6)


def test_earlier_output_does_not_count() -> None:
    records = [(99, record(10, orders=3)), (100, record(20))]

    assert summed(records, "bench-requests", 100) == State(1, 20, 0)


def test_a_partition_without_requests_has_read_none() -> None:
    assert summed([(1, {"positions": {}, "pending": {}})], "bench-requests", 0) == State(1, 0, 0)
