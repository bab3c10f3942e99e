"""Effects of commands on a message that is pending, being sent, or absent."""

from collections.abc import Mapping

from app.engine.ingest.pending_rows import PendingRows
from app.engine.ingest.quotas import Quotas
from app.engine.steps import moves, occurrences
from app.engine.steps.command_memory import stamp_of
from app.engine.steps.context import PartitionContext
from app.engine.steps.plan import PAUSED_MS
from app.engine.steps.step import Step
from app.engine.steps.transitions import cancelled, ended, move
from punctual.contract.events import Event, Kind
from punctual.contract.record import Record
from punctual.contract.request import Request
from tables import Command, Entry, RememberedCommands, keys
from tables.commands import OF_SERIES


class Commands:
    """Applies the commands that come to one partition."""

    def __init__(
        self, context: PartitionContext, rows: PendingRows, crcs: Mapping[str, int], quotas: Quotas | None = None
    ) -> None:
        """Serve the partition of a context; `crcs` are the checksums of the input topics' names."""
        self._rows, self._crcs, self._quotas = rows, crcs, quotas
        self._claims, self._cold, self._memory = context.claims, context.cold, context.memory

    def apply(self, step: Step, record: Record, request: Request) -> None:
        """Add the effect of a command to `step`."""
        key, command = step.ids[request.id], self._command(record, request)
        if key is None:
            self._miss(step, request, command)
            return
        entry = self._rows.entry(step, key)
        # An unconditional cancel also wins against later moves: after it they would have found no message.
        shaped = entry.asked if command.op == "cancel" and command.if_due_ms is None else entry.timed
        if command.stamp.precedes(shaped) and not (self._waits(key, entry) and moves.is_before_hold(entry, command)):
            self._say(step, "stale", request, key, entry)
            if entry.asked.precedes(command.stamp):
                self._memory.outdo(step, key, entry, command, stale=True)
        elif not (occurrences.is_meant(entry, keys.due_of(key), command) and occurrences.allows(entry, request.op)):
            self._say(step, "conflict", request, key, entry)
            self._memory.overlook(step, entry, command)
        elif not self._waits(key, entry):
            self._rows.record(step, key, entry, command)
        elif request.op == "cancel":
            cancelled(step, key, entry, request.source)
            self._memory.end(step, key, entry, command)
        else:
            self._memory.outdo(step, key, entry, command)
            row = move(step, key, entry, command)
            if row is None:
                self._memory.end(step, key, entry, command)
                return
            moved = step.changes.puts[row][0]
            if self._cold.settle(step, row, request.source, request.stamp_ms):
                self._memory.end(step, row, moved)

    def _waits(self, key: bytes, entry: Entry) -> bool:
        """Return whether a message is not being sent, and has no commands that wait for the outcome of a send."""
        return key not in self._claims and not entry.commands

    def _miss(self, step: Step, request: Request, command: Command) -> None:
        """Remember a command for an id that is not pending: its request may come late, or be in the cold tier.

        Raises Refusal if the namespace's quota of remembered ids is used up.
        """
        known = self._memory.of(step, request.id)
        if known is not None and _is_stale(command, known):
            step.tell(Event("stale", request.id, step.now_ms, request.source, by=request.source))
            return
        if known is None and self._quotas is not None:
            self._quotas.remember(request.id)
        if self._cold.there and request.op not in OF_SERIES:  # the tier never holds a series
            self._cold.defer(step, request)
        else:
            step.tell(Event("unknown", request.id, step.now_ms, request.source, by=request.source))
        self._memory.wait(step, request.id, command)

    def _command(self, record: Record, request: Request) -> Command:
        assert request.op != "schedule", "a schedule is no command"
        crc, stamp_ms = self._crcs[record.topic], stamp_of(request).stamp_ms
        due_ms = request.due_ms or PAUSED_MS if request.op == "pause" else request.due_ms
        return Command(request.op, request.source, due_ms, record.offset, crc, stamp_ms, request.if_due_ms)

    def _say(self, step: Step, event: Kind, request: Request, key: bytes, entry: Entry) -> None:
        ended(step, event, keys.due_of(key), entry, by=request.source)


def _is_stale(command: Command, known: RememberedCommands) -> bool:
    """Return whether a later request or command has ended the message, or a later command of its kind has moved it."""
    later = any(one.rivals(command) and command.stamp.precedes(one.stamp) for one in known.waiting)
    return later or known.has_ended(command.stamp)
