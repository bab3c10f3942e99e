"""Schedule requests: each becomes a row, loses to a later record for its id, or is a duplicate."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from app.engine.ingest.pending_rows import IdHistory, PendingRows, content, reminded, row_of
from app.engine.ingest.policy import Policy
from app.engine.ingest.quotas import Quotas
from app.engine.ingest.refusals import RefusalWriter
from app.engine.steps import moves, occurrences
from app.engine.steps.bounds import BoundJoiner
from app.engine.steps.command_memory import stamp_of
from app.engine.steps.context import PartitionContext
from app.engine.steps.resent_series import SeriesRequest as Asked
from app.engine.steps.resent_series import continuation, continuation_in_flight
from app.engine.steps.step import Step
from app.engine.steps.transitions import ended, skipped, why
from punctual.contract.events import Event, Kind
from punctual.contract.record import Record
from punctual.contract.request import Parked, Refusal, Request
from tables import Command, Entry, RememberedCommands, keys
from tables.commands import in_order
from tables.entry import encode
from tables.shares import size_of


class Schedules:
    """Takes in the messages of one partition, from their senders or from the cold tier."""

    def __init__(
        self,
        context: PartitionContext,
        policy: Policy,
        rows: PendingRows,
        refusals: RefusalWriter,
        crcs: Mapping[str, int],
    ) -> None:
        """Serve the partition of a context; `crcs` are the checksums of the input topics' names."""
        self._retention, self._store, self._claims = context.settings.retention, context.store, context.claims
        self._cold, self._memory = context.cold, context.memory
        self._policy, self._rows, self._refusals, self._crcs = policy, rows, refusals, crcs
        self._number, self._quotas = context.number, policy.quotas
        self._history, self._bounds = IdHistory(context.store, context.memory), BoundJoiner(context)

    def schedule(self, step: Step, record: Record, request: Request) -> None:
        """Add a message to `step`, or the event that says why it is not taken in.

        Raises Refusal if it is too large or its namespace has no room.
        """
        entry, due_ms = row_of(request), request.due_ms
        if entry.bound is not None:
            due_ms, entry = entry.within(due_ms)
        raw = encode(entry, step.version)
        self._rows.check_size(len(raw))
        before = step.ids[request.id]
        remembered = step.changes.commands or self._store.commands.may_have(request.id)
        known = self._memory.of(step, request.id) if remembered else None
        if known is not None or before is not None:
            self._contend(step, record, request, entry, known, before)
        elif self._history.delivered_before(step, request):
            self._duplicate(step, request)
        else:
            if self._quotas is not None and request.parked is None:
                self._admit(self._quotas, request, entry, None)
            if entry.bound is None:  # most requests have none, and a keyword argument would cost more
                step.tell(Event("accepted", request.id, step.now_ms, request.source, due_ms, request.to))
            else:
                step.tell(_accepted(step, request, due_ms))
            if self._cold.there:
                self._hold(step, record, request, entry, due_ms, raw)
            else:
                step.put(keys.row_key(due_ms, record.offset, self._crcs[record.topic]), entry, raw)

    def _admit(self, quotas: Quotas, request: Request, entry: Entry, before: Entry | None) -> None:
        """Count a message, and its id if its delivery will be remembered; `before` is the message that it replaces.

        Raises Refusal if a quota is used up.
        """
        window_ms = self._retention.dedupe_window_ms if request.dedupe_ms is None else request.dedupe_ms
        if window_ms and entry.series is None:
            quotas.remember(request.id)
        quotas.admit(self._number, request.id, size_of(entry), None if before is None else size_of(before))

    def take_back(
        self, step: Step, record: Record, request: Request, parked: Parked, partitions_of: Callable[[str], int]
    ) -> None:
        """Take in a message that the cold tier sends back, unless the tier did not know the last record of its id."""
        self._cold.assure_there()
        if self._cold.is_stale(step, parked):
            self._duplicate(step, request, "stale-promotion")
            return
        known = self._history.standing(step, request, parked)
        if known:
            self._duplicate(step, request)
            if known == "here":
                self._cold.confirm(step, request)
            return
        try:
            self._policy.check(request, step.broker_ms)
            if request.cluster is None:
                self._policy.assure_topic(request, partitions_of(request.to))
            self.schedule(step, record, request)
        except Refusal as refusal:
            key = keys.row_key(max(0, request.due_ms), record.offset, self._crcs[record.topic])
            self._refusals.refuse_parked(step, key, row_of(request), refusal)
        self._cold.confirm(step, request)

    def _contend(
        self,
        step: Step,
        record: Record,
        request: Request,
        entry: Entry,
        known: RememberedCommands | None,
        before: bytes | None,
    ) -> None:
        """Take in a request whose id has earlier records: remembered ones (`known`) or the pending row at `before`.

        Raises Refusal if a quota is used up.
        """
        stamp, there = stamp_of(request), None if before is None else self._rows.entry(step, before)
        lost = known.ended if known is not None and known.has_ended(stamp) else None
        if known is not None and lost is not None and known.cancelled:
            self._lose(step, request, entry, "cancelled", lost.source)
            return
        being_sent = before is not None and self._is_sent(before, request, entry)
        if being_sent or self._history.delivered_before(step, request):
            self._duplicate(step, request)
            return
        if before is not None and there is not None and stamp.precedes(there.asked):
            self._lose(step, request, entry, "replaced", there.asked.source)
            if lost is None and entry.series is None:  # both are requests for the same message
                row_at = partial(keys.row_key, offset=record.offset, crc=self._crcs[record.topic])
                self._bounds.join(step, before, entry.own_bound, request.source, request.stamp_ms, row_at)
            return
        if lost is not None:
            self._lose(step, request, entry, "replaced", lost.source)
            return
        if self._quotas is not None and request.parked is None:
            self._admit(self._quotas, request, entry, there)
        alike = there is not None and there.series is None and entry.series is None  # a series has no bound
        if before is not None and there is not None and alike and before not in self._claims and not there.commands:
            entry = msgspec.structs.replace(entry, bound=entry.own_bound.joined(there.own_bound))
        entry, unsent_ms = self._accept(step, request, entry, before)
        commands = known.waiting if known is not None else ()
        if before is not None and there is not None:
            replace = Command("replace", request.source, unsent_ms, stamp_ms=stamp.stamp_ms)
            commands += self._replace(step, before, there, replace)
        if known is not None and request.parked is not None:
            entry = reminded(entry, known)
        self._meet(step, record, request, entry, [one for one in in_order(commands) if stamp.precedes(one.stamp)])

    def _accept(self, step: Step, request: Request, entry: Entry, before: bytes | None) -> tuple[Entry, int]:
        """Accept a request and return its entry; a series continues the series at `before` with the same schedule.

        Also return the due time (epoch ms) at which the occurrence at `before` is to be delivered if it is being sent
        and turns out unsent; 0 if it is not to be delivered then.
        """
        again = None
        if before is not None and entry.series is not None:
            there = self._rows.entry(step, before)
            known = Asked(entry, stamp_of(request), _says_when(request))
            if before in self._claims or there.commands:
                again = continuation_in_flight(known, before, there, step.broker_ms, occurrences.MOST_MISSED)
            else:
                again = continuation(known, before, there)
        if again is not None:
            request.due_ms, entry = again.due_ms, msgspec.structs.replace(entry, series=again.series)
        due_ms, entry = entry.within(request.due_ms)
        step.tell(_accepted(step, request, due_ms))
        for passed in () if again is None else again.passed:
            skipped(step, entry, passed)
        return entry, 0 if again is None else again.unsent_ms

    def _lose(self, step: Step, request: Request, entry: Entry, event: Kind, by: str) -> None:
        """Accept a request and end it at once with `event`, because the later record `by` for its id wins."""
        due_ms, _ = entry.within(request.due_ms)
        step.tell(_accepted(step, request, due_ms))
        ended(step, event, due_ms, entry, by=by)

    def _replace(self, step: Step, key: bytes, entry: Entry, by: Command) -> tuple[Command, ...]:
        """End a pending message in favour of a later request; return its commands that are later than `by`.

        If the message is being sent, the outcome of the send ends it, and the returned commands leave its row.
        """
        stamp = by.stamp
        later = tuple(one for one in entry.commands if one.op != "replace" and stamp.precedes(one.stamp))
        left = tuple(one for one in entry.commands if one not in later)
        movers = occurrences.movers(entry, key)
        later = (*(one for one in movers if stamp.precedes(one.stamp)), *later)
        if key in self._claims or entry.commands:
            entry = msgspec.structs.replace(entry, commands=left)
            self._rows.record(step, key, entry, by)
        else:
            step.remove(key, entry)
            ended(step, "replaced", keys.due_of(key), entry, by=by.source)
        return later

    def _meet(self, step: Step, record: Record, request: Request, entry: Entry, commands: Sequence[Command]) -> None:
        """Apply the commands that have waited for a message, and store it unless a command ends it."""
        last = None
        due_ms, entry = entry.within(request.due_ms)
        for place, command in enumerate(commands):
            if not (occurrences.is_meant(entry, due_ms, command) and occurrences.allows(entry, command.op)):
                ended(step, "conflict", due_ms, entry, by=command.source)
                self._memory.overlook(step, entry, command)
            elif command.op == "cancel":
                ended(step, "cancelled", due_ms, entry, by=command.source)
                self._memory.end(step, keys.row_key(due_ms, 0, 0), entry, command)
                if self._cold.there and request.parked is None:  # voids the message that the tier may have
                    self._cold.keep(step, request.id, command.source, command.stamp_ms)
                self._leave(step, request, commands[place + 1 :])
                return
            else:
                if last is not None and not last.rivals(command):
                    self._memory.wait(step, entry.id, last)
                last = command
                move = moves.moved(entry, entry.asked_due(keys.row_key(due_ms, 0, 0)), command)
                if move.passed is not None:
                    skipped(step, entry, move.passed)
                due_ms, entry = msgspec.structs.replace(move.entry, moved=command.stamp).within(move.due_ms)
                if move.over:
                    ended(step, "dropped", due_ms, entry, by=command.source, reason="missed")
                    self._memory.end(step, keys.row_key(due_ms, 0, 0), entry, command)
                    self._leave(step, request, commands[place + 1 :])
                    return
                ended(step, "rescheduled", due_ms, entry, by=command.source, reason=why(due_ms, move.due_ms))
        self._hold(step, record, request, entry, due_ms, encode(entry, step.version), last)

    def _leave(self, step: Step, request: Request, commands: Sequence[Command]) -> None:
        """Remember commands that are later than the end of their message: an older request may still come late."""
        for left in commands:
            step.tell(Event("unknown", request.id, step.now_ms, left.source, by=left.source))
            self._memory.wait(step, request.id, left)

    def _hold(
        self,
        step: Step,
        record: Record,
        request: Request,
        entry: Entry,
        due_ms: int,
        raw: bytes,
        moved: Command | None = None,
    ) -> None:
        """Put the row of an accepted message, or park it; `moved` is the last command that moved it, if any."""
        row, by = keys.row_key(due_ms, record.offset, self._crcs[record.topic]), moved or request
        parks = self._cold.there and request.parked is None
        if parks and self._cold.park(step, due_ms, entry, len(raw), by.source, by.stamp_ms):
            self._memory.end(step, row, entry)
        else:
            step.put(row, entry, raw)

    def _is_sent(self, row: bytes, request: Request, entry: Entry) -> bool:
        """Return whether the same message is being sent, with a dedupe window that makes this request a duplicate.

        Always False for a series, which continues with the same schedule whether or not an occurrence is being sent.
        """
        window_ms = self._retention.dedupe_window_ms if request.dedupe_ms is None else request.dedupe_ms
        sent = self._claims.get(row)
        if not window_ms or sent is None or entry.series is not None or sent.asked_due(row) != request.due_ms:
            return False
        return content(sent) == content(entry)

    def _duplicate(self, step: Step, request: Request, reason: str | None = None) -> None:
        step.tell(
            Event("duplicate", request.id, step.now_ms, request.source, request.due_ms, request.to, reason=reason)
        )


def _says_when(request: Request) -> bool:
    """Return whether a request says when its series begins; forwards of older workers show it by the interval."""
    rule = request.recurrence
    if request.says_when is not None or rule is None or rule.every_ms is None:
        return request.says_when or False
    return rule.anchor_ms != request.stamp_ms + rule.every_ms


def _accepted(step: Step, request: Request, due_ms: int) -> Event:
    reason = why(due_ms, request.due_ms)
    return Event("accepted", request.id, step.now_ms, request.source, due_ms, request.to, reason=reason)
