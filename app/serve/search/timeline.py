"""Counts due messages by span of time: hourly counters give totals, and a scan of the rows gives the rest."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from app.serve.search.filter import Filter
from app.serve.search.peers import Missing, WorkerPart
from app.serve.search.scan import ScanQuery
from app.serve.search.scans import ScanFailed
from app.serve.search.search import Search
from app.serve.search.timeline_counts import HOUR_MS, Bucket, HourlyCounts, ScannedCounts, TimelineSpans
from punctual.contract.namespaces import Namespaces

#: The maximum destinations that are named; smaller destinations are only in the totals.
NAMED: Final = 50
#: A part is cached for this many seconds, and this many times as long as it took, so that scans take at most a tenth.
_KEPT_S, _TIMES = 2.0, 9
#: The maximum parts that are counted at a time, fewer than the scans that may wait. A part is counted to its end, even
#: if its client has disconnected.
_MOST: Final = 24
#: The maximum rows and milliseconds for the time from now on, and for each of the two late ranges.
_AHEAD, _LATE = (150_000, 1_000), (25_000, 250)


class TimelinePart(WorkerPart, kw_only=True):
    """One worker's counts by span; `first_ms` is the beginning of the first hour in which it has messages."""

    buckets: list[Bucket]
    first_ms: int | None = None
    complete: bool = True


class Timeline(msgspec.Struct, kw_only=True):
    """All workers' buckets in order; `complete` says whether all rows were scanned that the counters do not cover.

    `overdue` is as in the overview; for namespaces, it is the late messages that were scanned.
    """

    buckets: list[Bucket]
    overdue: int
    complete: bool
    missing: list[Missing]


class Timelines:
    """Counts due messages by span; a result is cached for two seconds, and longer if it took long."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._known: dict[object, tuple[float, asyncio.Task[TimelinePart]]] = {}

    async def timeline(
        self, spans: TimelineSpans, query: Mapping[str, str], within: Namespaces | None = None
    ) -> Timeline:
        """Return the messages due in some spans on all workers, or in the namespaces `within`.

        `query` makes other workers count the same spans and namespaces. Raises ScanFailed if too many are being
        counted.
        """
        own = self.own_part(spans, within)
        parts, missing = await self._search.everywhere(own, "/timeline", query, TimelinePart)
        return merged(spans, parts, missing, self._search.overdue if within is None else None)

    async def own_part(self, spans: TimelineSpans, within: Namespaces | None = None) -> TimelinePart:
        """Return the messages due in some spans and namespaces in the partitions served here. Raises ScanFailed."""
        now, served = asyncio.get_running_loop().time(), self._search.served
        self._known = {key: one for key, one in self._known.items() if now < one[0] or not one[1].done()}
        key = (tuple(spans.edges), tuple(served), None if within is None else within.names)
        if key not in self._known:
            if sum(not task.done() for _, task in self._known.values()) >= _MOST:
                raise ScanFailed(f"{_MOST} timelines are already being counted on this worker; try again in a moment")
            task = asyncio.create_task(self._part(spans, served, within))
            self._known[key] = now, task  # until it is done, when its time in the cache starts
            task.add_done_callback(lambda done: self._keep(key, now, done))
        return await asyncio.shield(self._known[key][1])

    def _keep(self, key: object, began: float, task: asyncio.Task[TimelinePart]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._known.pop(key, None)
        else:
            now = asyncio.get_running_loop().time()
            self._known[key] = now + max(_KEPT_S, _TIMES * (now - began)), task

    async def _part(self, spans: TimelineSpans, served: list[int], within: Namespaces | None) -> TimelinePart:
        hours = HourlyCounts(self._search.hours(served))
        looked = ScannedCounts(spans.atoms)
        for since, until, (rows, ms) in _stretches(spans):
            if not hours.any(since, until):
                continue  # the counters have no messages there
            steps = looked.steps(since, until)
            wanted = Filter(due_from_ms=since, due_to_ms=until - 1, within=within)
            try:
                result = await self._search.scans.scan(ScanQuery(filter=wanted, steps=steps, rows=rows, ms=ms))
            except ScanFailed:
                looked.missed.append((since, until))
            else:
                looked.add(since, until, steps, result)
        return TimelinePart(
            partitions=served,
            buckets=looked.buckets(spans, hours if within is None else None),
            first_ms=hours.first_ms if within is None else looked.first_ms,
            complete=not looked.missed,
        )


def merged(
    spans: TimelineSpans, parts: Sequence[TimelinePart], missing: list[Missing], overdue: int | None
) -> Timeline:
    """Return the sum of parts, without empty spans at an open beginning and at the end.

    If `overdue` is None, it is the sum of the late buckets.
    """
    buckets = [Bucket(from_ms=a, to_ms=b, exact=not missing) for a, b in pairwise(spans.edges)]
    sums = [Counter[str]() for _ in buckets]
    for part in parts:
        for bucket, by, one in zip(buckets, sums, part.buckets, strict=True):
            bucket.total += one.total
            bucket.exact &= one.exact
            bucket.unseen += one.unseen
            by.update(one.by)
    named = {name for name, _ in sum(sums, Counter[str]()).most_common(NAMED)}
    for bucket, by in zip(buckets, sums, strict=True):
        bucket.by = {name: number for name, number in by.most_common() if name in named}
    if spans.edges[0] == 0:
        _trim(buckets, [part.first_ms for part in parts if part.first_ms is not None])
    if overdue is None:
        overdue = sum(bucket.total for bucket in buckets if bucket.to_ms <= spans.at_ms)
    complete = not missing and all(part.complete for part in parts)
    return Timeline(buckets=buckets, overdue=overdue, complete=complete, missing=missing)


def _trim(buckets: list[Bucket], firsts: list[int]) -> None:
    """Remove an empty first bucket, or set its beginning, and remove empty growing steps at the end."""
    if buckets[0].total == 0 and buckets[0].exact:
        del buckets[0]
    else:
        buckets[0].from_ms = min([*firsts, buckets[0].to_ms - 1])
    while buckets and buckets[-1].total == 0 and buckets[-1].to_ms - buckets[-1].from_ms > HOUR_MS:
        del buckets[-1]


def _stretches(spans: TimelineSpans) -> list[tuple[int, int, tuple[int, int]]]:
    """Return the time ranges to scan in order: from now on, the current hour until now, and everything before.

    Each has its own limits, so that many late messages do not reduce the scan of the future.
    """
    atoms = spans.atoms
    now, hour = (
        max((atom for atom in atoms if atom <= time_ms), default=atoms[0])
        for time_ms in (spans.at_ms, spans.at_ms - spans.at_ms % HOUR_MS)
    )
    ranges = [(now, atoms[-1], _AHEAD), (hour, now, _LATE), (atoms[0], hour, _LATE)]
    return [one for one in ranges if one[0] < one[1]]
