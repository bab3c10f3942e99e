"""Planning of a partition's series by this worker's zone rules, if the last worker had other time zone data.

The database names the zone data by which its series are planned, so that a start with the same data reads no row.
"""

import asyncio
import itertools
from collections import deque

from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from app.engine.steps.zone_rules import replan
from punctual.contract.zone_data import zone_data
from tables import Entry, keys
from tables.entry import decode, may_recur

#: Rows read per step (about a millisecond), and how many rows a series counts for, because it costs more.
_LOOKS, _SERIES = 1_000, 20


class Replanning:
    """Plans the series of a partition by the zone rules of this worker, some with each step."""

    def __init__(self, context: PartitionContext) -> None:
        """Plan the series in the partition of a context, from begin() on."""
        self._context, self._store = context, context.store
        # From here on rows are planned by this zone data. If the worker ends before all are, the database must not say
        # that they are planned by the former data.
        if self._store.zones not in (b"", zone_data()):
            self._store.plan_by(b"")
        #: Rows still to be read: from one key up to another.
        self._ranges = deque[tuple[bytes, bytes]]()
        self._before, self._is_last = b"", False
        self._done: asyncio.Future[None] | None = None

    @property
    def over(self) -> bool:
        """Whether no work is left."""
        return self._done is None

    def begin(self, bound: bytes) -> "asyncio.Future[None] | None":
        """Begin with the rows from `bound` on; the returned future is done when they are planned.

        Returns None if there is no work, as after most starts: all series are planned by this zone data.
        """
        if self._store.zones == zone_data():
            return None
        if self._has_no_series():
            self._store.plan_by(zone_data())
            return None
        self._before = bound
        return self._look(bound, keys.ROWS_END)

    def finish(self) -> "asyncio.Future[None] | None":
        """Go on with the rows before the bound, now that all sends of the last life have an outcome.

        Returns a future as begin() does, or None if there is no work.
        """
        if not self._before:
            return None
        self._is_last = True
        return self._look(b"", self._before)

    def _look(self, first: bytes, end: bytes) -> "asyncio.Future[None]":
        self._ranges.append((first, end))
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        return self._done

    def _has_no_series(self) -> bool:
        first = list(itertools.islice(self._store.raw_rows(b""), _LOOKS))
        return len(first) < _LOOKS and not any(may_recur(raw) for _, raw in first)

    def put_into(self, step: Step) -> None:
        """Add the changes of the next rows to a step. A series that is being sent follows these rules afterwards."""
        if self._ranges:
            for key, entry in self._next_rows(step):
                replan(self._context, step, key, entry)
            return
        if self._is_last:  # the last step with changes is committed
            self._store.plan_by(zone_data())
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
        self._done = None

    def _next_rows(self, step: Step) -> list[tuple[bytes, Entry]]:
        """Return the next series, without series that the step changes or that are being sent."""
        (cursor, end), looks = self._ranges.popleft(), 0
        rows: list[tuple[bytes, Entry]] = []
        for key, raw in self._store.raw_rows(cursor):
            if key >= end:
                break
            looks += 1
            if may_recur(raw) and key not in self._context.claims and not step.changes.touches(key):
                looks += _SERIES
                rows.append((key, decode(raw)))
            if looks >= _LOOKS:
                self._ranges.appendleft((key + b"\0", end))
                break
        return rows
