"""Pending messages and remembered ids as a step sees them: its own changes come before the table.

The functions at the end turn requests into rows.
"""

from typing import Literal

import msgspec

from app.engine.steps.command_memory import CommandMemory, stamp_of
from app.engine.steps.context import PartitionContext
from app.engine.steps.series_rules import begun
from app.engine.steps.step import Step
from punctual.contract.events import Event
from punctual.contract.request import Parked, Reason, Refusal, Request
from punctual.contract.times import LONGEST_MS
from tables import Bound, Command, Entry, PartitionStore, RecordStamp, RememberedCommands
from tables.commands import OF_SERIES, UNKNOWN_MS
from tables.entry import emptied, encode

#: Maximum number of commands on a row that is being sent.
_COMMANDS = 32


class PendingRows:
    """Looks up the rows of one partition, and writes commands on rows that are being sent."""

    def __init__(self, context: PartitionContext) -> None:
        """Serve the partition of a context."""
        self._store, self._claims, self._limits = context.store, context.claims, context.limits
        self._topics = context.settings.topics

    def entry(self, step: Step, key: bytes) -> Entry:
        """Return the row at `key` as the step sees it."""
        entry = step.changes.entry(key) or self._claims.get(key) or self._store.entry(key)
        assert entry is not None, "the id index names a row that is not there"
        return entry

    def record(self, step: Step, key: bytes, entry: Entry, command: Command) -> None:
        """Write a command on a row that is being sent; the outcome of the send decides whether it applies.

        If the row has too many commands, the first command that moves the message is dropped: it changes least.
        """
        commands = (*entry.commands, command)
        if len(commands) > _COMMANDS:
            passed_over = next((one for one in commands[:-1] if one.op not in ("cancel", "replace")), commands[1])
            commands = tuple(one for one in commands if one is not passed_over)
            step.tell(Event("stale", entry.id, step.now_ms, passed_over.source, by=command.source))
        entry = msgspec.structs.replace(entry, commands=commands)
        if command.op == "replace":  # the step has no room for the old and the new row if both are large
            was, entry = entry, emptied(entry)
            step.changes.empty(key, was, entry, encode(entry, step.version))
            step.ids[entry.id] = None
        else:
            step.changes.rewrite(key, entry, encode(entry, step.version))
        if key in self._claims:
            self._claims[key] = entry

    def check_size(self, size: int) -> None:
        """Raise Refusal if a row of `size` bytes is too large to be stored."""
        if size > self._limits.row:
            topics = self._topics
            raise Refusal(
                Reason.TOO_LARGE,
                f"the stored message would have {size:,} bytes. The maximum is {self._limits.row:,}. Send less, or "
                f"raise max.message.bytes of {topics.changelog} and "
                f"{topics.forwards}{f' and {topics.cold}' if self._limits.cold else ''}, and restart.",
            )


class IdHistory:
    """Looks up the remembered history of an id in a step, and then in the table."""

    def __init__(self, store: PartitionStore, memory: CommandMemory) -> None:
        """Read deliveries and cold marks from `store`, commands from `memory`."""
        self._store, self._memory = store, memory

    def delivered_before(self, step: Step, request: Request) -> bool:
        """Return whether the same id with the same due time was delivered within its dedupe window."""
        if not (step.changes.delivered or self._store.delivered.count):
            return False
        if request.id in step.changes.delivered:
            delivered = step.changes.delivered[request.id]
        else:
            delivered = self._store.delivered.get(request.id)
        return delivered is not None and delivered.due_ms == request.due_ms and delivered.expires_ms > step.broker_ms

    def standing(self, step: Step, request: Request, parked: Parked) -> Literal["here", "superseded", ""]:
        """Return the state of a message that the cold tier sends back, empty if it is to be taken in.

        `here`: this worker has it, or has had it. `superseded`: the tier sent it before it knew of a later record for
        the id. If that record is a cancel, the result is empty, so that the message ends as cancelled.
        """
        if step.ids[request.id] is not None:
            return "here"
        mark = step.changes.cold_marks.get(request.id) or self._store.cold_marks.get(request.id)
        if mark is None or mark.expires_ms <= step.broker_ms:
            return ""
        if mark.kept:
            return "here"
        if mark.source == parked.source:
            return ""
        known = self._memory.of(step, request.id)
        ended = known.ended if known is not None and known.cancelled and known.has_ended(stamp_of(request)) else None
        return "" if ended is not None and ended.source == mark.source else "superseded"


def row_of(request: Request) -> Entry:
    """Return the row that a request becomes, with all fields of `Message`.

    This is the only place where a request's fields become an entry's. They are passed by position, which is measurably
    cheaper than by name; a test compares them by name.
    """
    record = request.parked or request
    stamp_ms = UNKNOWN_MS if request.id in (request.source, record.source) else record.stamp_ms
    max_late_ms, if_late = request.max_late_ms, request.if_late
    if max_late_ms == LONGEST_MS:  # the request's way to say: no maximum lateness
        max_late_ms = if_late = None
    entry = Entry(
        request.id,
        request.to,
        request.key,
        request.value,
        request.headers,
        request.source,
        request.partition,
        request.cluster,
        max_late_ms,
        if_late,
        request.dedupe_ms,
        request.on_failure,
        0,
        (),
        None,
        stamp_ms,
        None if record is request else record.source,
        None,
        None
        if request.no_later_ms is None and record is request
        else _bound(request, RecordStamp(stamp_ms, record.source)),
    )
    if request.recurrence is None:
        return entry
    return msgspec.structs.replace(entry, series=begun(request.recurrence, request.planned_ms))


def _bound(request: Request, stamp: RecordStamp) -> Bound | None:
    """Return the bound that a request sets; for a message from the cold tier, from its first request on."""
    first_ms = request.stamp_ms if request.parked is None else request.parked.first_ms
    if request.no_later_ms is None or request.no_later_ms == LONGEST_MS:
        return None if request.parked is None or first_ms is None else Bound(first_ms)
    return Bound(stamp.stamp_ms if first_ms is None else first_ms, request.no_later_ms, stamp)


def reminded(entry: Entry, known: RememberedCommands) -> Entry:
    """Return a message from the cold tier with the stamps of the commands that this partition remembers for its id.

    The tier sends only the stamp of the last record, whatever that record has changed.
    """
    latest = known.ended or RecordStamp(UNKNOWN_MS, entry.source)
    moved = next((one.stamp for one in known.waiting if one.moves and one.op not in OF_SERIES), None)
    return msgspec.structs.replace(entry, stamp_ms=latest.stamp_ms, asked_by=latest.source, moved=moved)


def content(entry: Entry) -> Entry:
    """Return an entry without the fields that may differ in two requests for the same message."""
    return msgspec.structs.replace(
        entry,
        source="",
        stamp_ms=UNKNOWN_MS,
        asked_by=None,
        moved=None,
        commands=(),
        attempts=0,
        next_try_ms=None,
        bound=None,
    )
