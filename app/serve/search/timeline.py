"""What falls due when: totals by the hourly counters where they can tell, and what only a look at the rows tells."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from app.serve.search.filter import Filter
from app.serve.search.peers import Missing
from app.serve.search.scan import ScanQuery
from app.serve.search.scans import ScanFailed
from app.serve.search.search import Search
from app.serve.search.timeline_counts import Bucket, HourlyCounts, ScannedCounts
from app.serve.search.timeline_spans import HOUR_MS, TimelineSpans
from punctual.contract.namespaces import Namespaces

#: Destinations that are named; those that are smaller are in the totals alone.
NAMED: Final = 50
#: An answer holds for so long, and for so many times as long as it took: looking takes a tenth of the time at most.
_KEPT_S, _TIMES = 2.0, 9
#: So many are being looked for at a time: fewer than scans wait, and none ends because whoever asked has gone.
_MOST: Final = 24
#: Rows and milliseconds for what comes from now on, and for each of the two stretches that are late.
_AHEAD, _LATE = (150_000, 1_000), (25_000, 250)


class TimelinePart(msgspec.Struct, kw_only=True):
    """What one worker knows of the spans; `first_ms` is when the first hour begins in which it has messages."""

    partitions: list[int]
    buckets: list[Bucket]
    first_ms: int | None = None
    complete: bool = True


class Timeline(msgspec.Struct, kw_only=True):
    """All workers' buckets in order. It is `complete` if every total is exact, and `by` adds up to it but for the rest.

    `overdue` is as in the overview; of namespaces alone, what is seen to be late.
    """

    buckets: list[Bucket]
    overdue: int
    complete: bool
    missing: list[Missing]


class Timelines:
    """Tells what falls due when; an answer holds for two seconds, and longer if it took long."""

    def __init__(self, search: Search) -> None:
        """Ask by a search."""
        self._search = search
        self._known: dict[object, tuple[float, asyncio.Task[TimelinePart]]] = {}

    async def timeline(
        self, spans: TimelineSpans, query: Mapping[str, str], within: Namespaces | None = None
    ) -> Timeline:
        """Return what is due in some spans on all workers, in some namespaces alone if they are given.

        `query` has others make the same spans for the same namespaces. Raises ScanFailed if too many are looked for.
        """
        own, (others, missing) = await asyncio.gather(
            self.own_part(spans, within), self._search.ask_others("/timeline", query, TimelinePart)
        )
        return merged(spans, [own, *others], missing, self._search.overdue if within is None else None)

    async def own_part(self, spans: TimelineSpans, within: Namespaces | None = None) -> TimelinePart:
        """Return what is due in some spans, and namespaces, of the partitions that are served here.

        Raises ScanFailed if too many are looked for.
        """
        now, served = asyncio.get_running_loop().time(), self._search.served
        self._known = {key: one for key, one in self._known.items() if now < one[0] or not one[1].done()}
        key = (tuple(spans.edges), tuple(served), None if within is None else within.names)
        if key not in self._known:
            if sum(not task.done() for _, task in self._known.values()) >= _MOST:
                raise ScanFailed(f"{_MOST} timelines are already being counted on this worker; try again in a moment")
            task = asyncio.create_task(self._part(spans, served, within))
            self._known[key] = now, task  # until it is done: its time runs from then on
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
                continue  # the counters say that there is nothing
            steps = looked.steps(since, until)
            wanted = Filter(due_from_ms=since, due_to_ms=until - 1, within=within)
            try:
                found = await self._search.scans.scan(ScanQuery(filter=wanted, steps=steps, rows=rows, ms=ms))
            except ScanFailed:
                looked.missed(since, until)
            else:
                looked.add(since, until, steps, found)
        return TimelinePart(
            partitions=served,
            buckets=looked.buckets(spans, hours if within is None else None),
            first_ms=hours.first_ms if within is None else looked.first_ms,
            complete=looked.complete,
        )


def merged(
    spans: TimelineSpans, parts: Iterable[TimelinePart], missing: list[Missing], overdue: int | None
) -> Timeline:
    """Return the sum of parts, without empty spans at an open beginning and at the end.

    What is `overdue` is told by what is late in them if nothing else tells.
    """
    parts = list(parts)
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
    """Leave out what is empty before now, and in growing steps at the end; an open beginning gets its time."""
    if buckets[0].total == 0 and buckets[0].exact:
        del buckets[0]
    else:
        buckets[0].from_ms = min([*firsts, buckets[0].to_ms - 1])
    while buckets and buckets[-1].total == 0 and buckets[-1].to_ms - buckets[-1].from_ms > HOUR_MS:
        del buckets[-1]


def _stretches(spans: TimelineSpans) -> list[tuple[int, int, tuple[int, int]]]:
    """Return what to look at in which order: what is ahead, the present hour until now, and then what is later still.

    However much is held back, it takes nothing from what is ahead.
    """
    atoms = spans.atoms
    now, hour = (
        max((atom for atom in atoms if atom <= time_ms), default=atoms[0])
        for time_ms in (spans.at_ms, spans.at_ms - spans.at_ms % HOUR_MS)
    )
    found = [(now, atoms[-1], _AHEAD), (hour, now, _LATE), (atoms[0], hour, _LATE)]
    return [one for one in found if one[0] < one[1]]
