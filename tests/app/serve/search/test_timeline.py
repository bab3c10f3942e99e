"""The due times of messages: whole hours by the counters, shorter spans by a scan of the rows."""

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from app.dev.testing.simulated_time import SimulatedLoop
from app.serve.search.peers import Missing
from app.serve.search.scan import Place, ScanQuery, ScanResult
from app.serve.search.scans import ScanFailed
from app.serve.search.timeline import TimelinePart, Timelines, merged
from app.serve.search.timeline_counts import (
    HOUR_MS,
    MINUTE_MS,
    Bucket,
    HourlyCounts,
    ScannedCounts,
    TimelineSpans,
    whole_hours,
)
from tables import keys
from tests.tables.rows import NOW, key

if TYPE_CHECKING:
    from app.serve.search.search import Search


@pytest.mark.parametrize("now_ms", [NOW, NOW + 1, NOW + 59 * MINUTE_MS, NOW + HOUR_MS - 1])
def test_the_default_spans_are_minutes_then_hours_then_longer_and_have_no_gaps(now_ms: int) -> None:
    spans = TimelineSpans.default(now_ms)
    lengths = [until - since for since, until in pairwise(spans.edges)]
    minutes, hours = lengths.count(MINUTE_MS), lengths.count(HOUR_MS)
    assert (spans.edges[0], spans.edges[-1]) == (0, keys.MAX_DUE_MS + 1)
    assert spans.edges[1] == spans.at_ms <= now_ms < spans.at_ms + MINUTE_MS
    assert 60 <= minutes < 120
    assert hours == 24
    later = lengths[1 + minutes + hours :]
    assert later == sorted(later)
    assert all(whole_hours(since, until) for since, until in list(pairwise(spans.edges))[1 + minutes :])
    assert len(spans.edges) < 200


def test_spans_between_have_a_round_step_that_a_chart_has_room_for() -> None:
    assert TimelineSpans.between(NOW, NOW + HOUR_MS, None, NOW).edges == list(range(NOW, NOW + HOUR_MS + 1, MINUTE_MS))
    assert TimelineSpans.between(NOW, NOW + 5, 2, NOW).edges == [NOW, NOW + 2, NOW + 4, NOW + 5]
    for since, until, step in ((NOW, NOW, None), (NOW + 1, NOW, 1), (NOW, NOW + 501, 1), (NOW, NOW + 9, 0)):
        with pytest.raises(ValueError, match="must"):
            TimelineSpans.between(since, until, step, NOW)
    assert len(TimelineSpans.between(0, keys.MAX_DUE_MS, None, NOW).edges) <= 121


def test_whole_hours_are_exact_by_the_counters_without_a_scan() -> None:
    since = NOW + HOUR_MS // 2
    spans = TimelineSpans.between(since, since + 3 * HOUR_MS, 3 * HOUR_MS, NOW)
    assert spans.atoms == [since, NOW + HOUR_MS, NOW + 3 * HOUR_MS, since + 3 * HOUR_MS]
    hours = HourlyCounts({NOW // HOUR_MS + number: 10**number for number in range(5)})
    looked = ScannedCounts(spans.atoms)
    looked.missed.append((since, since + 3 * HOUR_MS))
    (bucket,) = looked.buckets(spans, hours)
    assert (bucket.total, bucket.exact, not looked.missed) == (110, False, False)
    looked = ScannedCounts(spans.atoms)
    steps = looked.steps(since, since + 3 * HOUR_MS)
    looked.add(since, since + 3 * HOUR_MS, steps, ScanResult(by_step=[{"a": 1}, {"a": 90, "b": 20}, {"b": 7}]))
    (bucket,) = looked.buckets(spans, hours)
    assert (bucket.total, bucket.exact, bucket.by) == (118, True, {"a": 91, "b": 27})


def test_spans_after_the_end_of_a_scan_are_not_exact() -> None:
    spans = TimelineSpans.between(NOW, NOW + 30, 10, NOW)
    looked = ScannedCounts(spans.atoms)
    found = ScanResult(by_step=[{"a": 2}, {"a": 1}, {}], up_to=Place(key(NOW + 12), 0))
    looked.add(NOW, NOW + 30, looked.steps(NOW, NOW + 30), found)
    assert [one.exact for one in looked.buckets(spans, HourlyCounts({}))] == [True, False, False]
    assert [one.total for one in looked.buckets(spans, HourlyCounts({}))] == [2, 1, 0]


def test_counts_of_workers_add_up_and_without_one_worker_no_count_is_exact() -> None:
    spans = TimelineSpans.between(NOW, NOW + 20, 10, NOW)
    part = TimelinePart(
        partitions=[0],
        buckets=[Bucket(from_ms=NOW, to_ms=NOW + 10, total=3, by={"a": 3}), Bucket(from_ms=NOW + 10, to_ms=NOW + 20)],
    )
    whole = merged(spans, [part, part], [], 4)
    assert [(one.total, one.by, one.exact) for one in whole.buckets] == [(6, {"a": 6}, True), (0, {}, True)]
    assert (whole.complete, whole.overdue) == (True, 4)
    cut = merged(spans, [part], [Missing([1], None, "gone")], 4)
    assert not cut.complete
    assert not any(one.exact for one in cut.buckets)


def test_empty_spans_at_both_ends_are_left_out_and_late_messages_have_their_beginning() -> None:
    spans = TimelineSpans.default(NOW)
    empty = [Bucket(from_ms=a, to_ms=b) for a, b in pairwise(spans.edges)]
    shown = merged(spans, [TimelinePart(partitions=[0], buckets=empty)], [], 0).buckets
    assert (shown[0].from_ms, shown[-1].to_ms) == (NOW, NOW + 25 * HOUR_MS)
    empty[0].total = 1
    shown = merged(spans, [TimelinePart(partitions=[0], buckets=empty, first_ms=NOW - 2 * HOUR_MS)], [], 1).buckets
    assert (shown[0].from_ms, shown[0].to_ms, shown[0].total) == (NOW - 2 * HOUR_MS, NOW, 1)


def test_the_timeline_of_some_namespaces_has_scanned_counts_without_the_counters() -> None:
    since = NOW + HOUR_MS // 2
    spans = TimelineSpans.between(since, since + 3 * HOUR_MS, 3 * HOUR_MS, NOW)
    looked = ScannedCounts(spans.atoms)
    steps = looked.steps(since, since + 3 * HOUR_MS)
    looked.add(since, since + 3 * HOUR_MS, steps, ScanResult(by_step=[{"a": 1}, {}, {"b": 7}], first_ms=since + 5))
    (bucket,) = looked.buckets(spans, None)
    assert (bucket.total, bucket.exact, looked.first_ms) == (8, True, since + 5)
    cut = ScannedCounts(spans.atoms)
    cut.add(
        since, since + 3 * HOUR_MS, steps, ScanResult(by_step=[{"a": 1}, {}, {}], up_to=Place(key(NOW + HOUR_MS), 0))
    )
    (bucket,) = cut.buckets(spans, None)
    assert (bucket.total, bucket.exact) == (1, False)
    whole = merged(spans, [TimelinePart(partitions=[0], buckets=[bucket])], [], None)
    assert whole.overdue == 0
    late = TimelineSpans.between(NOW - 20, NOW + 10, 10, NOW)
    buckets = [Bucket(from_ms=a, to_ms=b, total=3) for a, b in pairwise(late.edges)]
    assert merged(late, [TimelinePart(partitions=[0], buckets=buckets)], [], None).overdue == 6


class Slow:
    """A search whose scans take a given time and are counted."""

    served, overdue, scanned = [0], 0, 0

    def __init__(self, took_s: float) -> None:
        self.took_s = took_s
        self.scans = self

    def hours(self, _partitions: list[int]) -> dict[int, int]:
        return {NOW // HOUR_MS: 1}

    async def scan(self, wanted: ScanQuery) -> ScanResult:
        self.scanned += 1
        await asyncio.sleep(self.took_s)
        return ScanResult(by_step=[{} for _ in wanted.steps[1:]])


@pytest.mark.parametrize(("took_s", "pause_s", "scanned"), [(0.0, 1.9, 1), (0.0, 2.1, 2), (1.0, 8.9, 1), (1.0, 9.1, 2)])
def test_a_scan_takes_at_most_a_tenth_of_the_time(took_s: float, pause_s: float, scanned: int) -> None:
    slow, spans = Slow(took_s), TimelineSpans.between(NOW, NOW + MINUTE_MS, 1_000, NOW)
    timelines = Timelines(cast("Search", slow))

    async def ask_twice() -> None:
        await timelines.own_part(spans)
        await asyncio.sleep(pause_s)
        await timelines.own_part(spans)

    loop = SimulatedLoop()
    loop.run_until_complete(ask_twice())
    loop.close()
    assert slow.scanned == scanned


def test_of_a_thousand_spans_a_limited_number_is_searched_and_the_others_are_refused() -> None:
    slow = Slow(1.0)
    timelines = Timelines(cast("Search", slow))

    async def ask() -> list[TimelinePart | BaseException]:
        spans = [TimelineSpans.between(NOW, NOW + MINUTE_MS + number, 1_000, NOW) for number in range(1_000)]
        told = await asyncio.gather(*(timelines.own_part(one) for one in spans), return_exceptions=True)
        await timelines.own_part(spans[-1])  # when the others have their answers
        return told

    loop = SimulatedLoop()
    told = loop.run_until_complete(ask())
    loop.close()
    assert slow.scanned == 24 + 1
    refused = [one for one in told if isinstance(one, ScanFailed)]
    assert len(refused) == 1_000 - 24
    assert "try again in a moment" in str(refused[0])
