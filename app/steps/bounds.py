"""Requests that share a bound with the message that waits, though it has not replaced them (records.md#debounce)."""

from collections.abc import Callable

import msgspec

from app.steps.context import Context
from app.steps.step import Step
from app.steps.transitions import ended, why
from tables import Bound, Entry, keys
from tables.entry import encode


class Bounds:
    """Joins the bounds of requests for one id, for one partition, whatever order they come in."""

    def __init__(self, context: Context) -> None:
        """Serve the partition of a context."""
        self._store, self._claims = context.store, context.claims
        self._cold, self._memory = context.cold, context.memory

    def join(
        self, step: Step, row: bytes, other: Bound, by: str, stamp_ms: int, row_at: Callable[[int], bytes]
    ) -> None:
        """Count for the message in `row` the bound of an older request of its life, which has lost to it.

        `by` and `stamp_ms` are of the record that shows it. If it moves the message, `row_at` gives the key of its new
        row. One that is being sent stays where it is: it is due.
        """
        entry = self._entry(step, row)
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

    def _entry(self, step: Step, row: bytes) -> Entry:
        put = step.changes.puts.get(row)
        entry = put[0] if put is not None else self._claims.get(row) or self._store.entry(row)
        assert entry is not None, "the id index names a row that is not there"
        return entry

    def _rewrite(self, step: Step, row: bytes, entry: Entry) -> None:
        step.changes.rewrite(row, entry, encode(entry, step.version))
        if row in self._claims:
            self._claims[row] = entry
