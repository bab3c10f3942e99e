"""Requests that share a bound with the message that waits, though it has not replaced them (records.md#debounce)."""

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
    """Joins the bounds of requests for one id, for one partition, whatever order they come in."""

    def __init__(self, context: PartitionContext) -> None:
        """Serve the partition of a context."""
        self._store, self._claims = context.store, context.claims
        self._cold, self._memory = context.cold, context.memory
        self._looked_at = 2 * context.settings.engine.max_in_flight

    def join(
        self, step: Step, row: bytes, other: Bound, by: str, stamp_ms: int, row_at: Callable[[int], bytes]
    ) -> None:
        """Count for the message in `row` the bound of an older request of its life, which has lost to it.

        `by` and `stamp_ms` are of the record that shows it. If it moves the message, `row_at` gives the key of its new
        row. One that is being sent stays where it is: it is due.
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
        """Count the bound of a message that was not sent for the one that has replaced it meanwhile, `by` a command.

        Perhaps that one is being sent itself, or is to be looked at; or another has replaced it, which began no later.
        What began later has its own life, for that one was delivered.
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
        """Return the row of a message that was being sent when the process before ended, and that is not looked at yet.

        Its id is another's by now. It is among the first rows, as far as no more than that are passed over.
        """
        said = source.encode()
        for row, raw in itertools.islice(self._store.raw_rows(b""), self._looked_at):
            if said in raw and decode(raw).source == source and not step.changes.removes(row):
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
