"""Bounds on the due time that the requests of one message's life share (records.md#debounce)."""

import itertools
from collections.abc import Callable
from functools import partial

import msgspec

from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from app.engine.steps.transitions import ended, why
from tables import Bound, Command, Entry, keys
from tables.entry import decode, encode


class BoundJoiner:
    """Joins the bounds of requests for one id in one partition, in whichever order the requests arrive."""

    def __init__(self, context: PartitionContext) -> None:
        """Use the store, claims, cold tier and command memory of a partition's `context`."""
        self._store, self._claims = context.store, context.claims
        self._cold, self._memory = context.cold, context.memory
        self._looked_at = 2 * context.settings.engine.max_in_flight

    def join(
        self, step: Step, row: bytes, other: Bound, by: str, stamp_ms: int, row_at: Callable[[int], bytes]
    ) -> None:
        """Join the bound of an older request of the same life to the message in `row`.

        The event names `by`, the source of the record that reveals the older request; `stamp_ms` is its stamp. If the
        bound moves the message, `row_at` returns the key of its new row. A message in flight keeps its row, because it
        is due.
        """
        entry = self._entry(step, row)
        if entry.series is not None:
            return
        joined = entry.own_bound.joined(other)
        if joined == entry.own_bound:
            return
        asked_ms, entry = entry.asked_due(row), msgspec.structs.replace(entry, bound=joined)
        due_ms, moved = entry.within(asked_ms)
        if row in self._claims or entry.commands:
            self._rewrite(step, row, entry)
        elif due_ms == keys.due_of(row):
            self._rewrite(step, row, moved)
        else:
            step.remove(row, entry)
            new, moved = row_at(due_ms), msgspec.structs.replace(moved, attempts=0, next_try_ms=None)
            step.put(new, moved, encode(moved, step.version))
            ended(step, "rescheduled", due_ms, entry, by=by, reason=why(due_ms, asked_ms))
            if self._cold.settle(step, new, by, stamp_ms):
                self._memory.end(step, new, moved)

    def pass_on(self, step: Step, entry: Entry, by: Command) -> None:
        """Join the bound of a message that was not sent to the replacement that the command `by` named.

        The replacement may be in flight, may have been in flight when the previous process ended, or may have been
        replaced again. A message that began after the replacement has its own life, because the replacement was
        delivered.
        """
        row = next((row for row, other in self._claims.items() if other.source == by.source), None)
        if row is None or step.changes.removes(row):
            row = step.ids[entry.id] if entry.id in step.ids else self._store.find(entry.id)
            if row is not None and by.stamp_ms < self._entry(step, row).own_bound.first_ms:
                row = self._left(step, by.source)
            if row is None:
                return
        self.join(step, row, entry.own_bound, entry.source, step.broker_ms, partial(keys.with_due, row))

    def _left(self, step: Step, source: str) -> bytes | None:
        """Return the row of the message from `source` that was in flight when the previous process ended, or None.

        Another message has its id by now. Its row is among the first ones, so only twice `max_in_flight` rows are
        searched.
        """
        encoded = source.encode()
        for row, raw in itertools.islice(self._store.raw_rows(b""), self._looked_at):
            if encoded in raw and decode(raw).source == source and not step.changes.removes(row):
                return row
        return None

    def _entry(self, step: Step, row: bytes) -> Entry:
        entry = step.changes.entry(row) or self._claims.get(row) or self._store.entry(row)
        assert entry is not None, "the id index names a row that is not there"
        return entry

    def _rewrite(self, step: Step, row: bytes, entry: Entry) -> None:
        step.changes.rewrite(row, entry, encode(entry, step.version))
        if row in self._claims:
            self._claims[row] = entry
