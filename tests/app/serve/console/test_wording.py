"""Numbers and times in words."""

import pytest

from app.engine.due.lateness import BOUNDS
from app.serve.console import wording
from app.serve.web.overview import percentiles
from punctual import durations


@pytest.mark.parametrize(
    ("span_ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (3_661_000, "1 h 1 min"),
        (90_061_000, "1 d 1 h"),
        (86_400_000 * 729, "729 d"),
        (86_400_000 * 913, "2.5 y"),
        (86_400_000 * 1826, "5 y"),
        (86_400_000 * 2_912_109, "7,972.9 y"),
    ],
)
def test_a_duration_names_its_two_largest_units(span_ms: int, words: str) -> None:
    assert durations.duration(span_ms) == words


def test_a_relative_time_looks_both_ways() -> None:
    assert durations.relative(65_000, 0) == "in 1 min 5 s"
    assert durations.relative(0, 65_000) == "1 min 5 s ago"
    assert durations.relative(0, 999) == "now"


def test_a_measured_value_has_no_more_digits_than_people_read() -> None:
    assert [wording.measure(value) for value in (0, 0.25, 2.0, 33.467, 1_204.4)] == ["0", "0.25", "2", "33.5", "1,204"]


def test_a_message_that_is_about_to_be_delivered_is_due_now() -> None:
    assert wording.next_due(65_000, 0) == "in 1 min 5 s"
    assert wording.next_due(0, 2_000) == "now"
    assert wording.next_due(0, 3_000) == "3 s ago"


def test_the_date_of_a_moment_is_left_out_within_a_day_of_now() -> None:
    now_ms = 1_800_000_000_000
    assert wording.clock(now_ms + 60_000, now_ms) == "at 08:01:00 UTC"
    assert wording.clock(now_ms + 86_400_000, now_ms) == "16 Jan 2027 08:00:00 UTC"


def test_parts_of_a_filter_have_the_names_that_the_form_has() -> None:
    assert [wording.field(name) for name in ("to", "id_prefix", "due_from_ms")] == [
        "destination",
        "ID begins with",
        "due from",
    ]


def test_a_moment_names_its_zone_and_survives_any_number() -> None:
    assert durations.moment(1_800_000_000_999) == "15 Jan 2027 08:00:00 UTC"
    assert durations.when(1_800_000_000_999, 1_799_999_990_999) == "15 Jan 2027 08:00:00 UTC (in 10 s)"
    assert durations.when(253_402_300_799_999, 0).startswith("31 Dec 9999 23:59:59 UTC (in ")
    for beyond in (253_402_300_800_000, 2**63 - 1, 10**30):
        assert durations.moment(beyond) == durations.when(beyond, 0) == "after the year 9999"
        assert wording.iso(beyond) == ""
    assert durations.moment(-(10**18)) == "before the year 1"
    assert wording.iso(1_800_000_000_999) == "2027-01-15T08:00:00Z"


def test_a_span_on_an_axis_or_in_a_title_names_its_day_once() -> None:
    at_ms = 1_800_000_000_000
    assert wording.moments(at_ms, at_ms + 60_000) == "15 Jan 2027 08:00:00 to 08:01:00 UTC"
    assert wording.moments(at_ms, at_ms + 86_400_000) == "15 Jan 2027 08:00:00 to 16 Jan 2027 08:00:00 UTC"
    assert wording.short(at_ms, at_ms) == "08:00:00"
    assert wording.short(at_ms, 0) == "15 Jan 2027 08:00"
    assert wording.local(at_ms, "Europe/Berlin") == "Fri 15 Jan 2027 09:00:00 +01:00"
    assert wording.local(10**18, "Europe/Berlin") == "after the year 9999"


def test_partition_numbers_draw_runs_together() -> None:
    assert wording.partitions([]) == ""
    assert wording.partitions([0, 1, 2, 7, 9, 10]) == "0\N{EN DASH}2, 7, 9\N{EN DASH}10"


def test_a_percentile_reads_as_the_bound_that_it_is() -> None:
    late = percentiles([{"5": 50, "2000": 10, "inf": 40}])
    assert wording.percentile(late.count, late.p50_ms) == "≤ 5 ms"
    assert wording.percentile(late.count, 2000) == "≤ 2 s"
    assert wording.percentile(late.count, late.p99_ms) == f"> {durations.duration(BOUNDS[-1])}"
    assert wording.percentile(0, None) == wording.DASH


def test_counts_are_exact_and_in_the_right_number() -> None:
    assert wording.counted(1, "worker") == "1 worker"
    assert wording.counted(12_345, "worker") == "12,345 workers"


def test_an_interval_is_named_exactly() -> None:
    assert durations.exact(300_000) == "5 min"
    assert durations.exact(86_400_000 + 3_661_000 + 5) == "1 d 1 h 1 min 1 s 5 ms"
    assert durations.duration(1_999) == "1 s"
    assert wording.schedule({"every": "300000"}) == "every 5 min"
    assert wording.schedule({"cron": "0 8 * * *", "zone": "Asia/Tokyo"}) == "0 8 * * *"
