"""Changes of a pending message in a step: it ends, or moves to another due time."""

from typing import Any

import msgspec

from app.engine.steps import occurrences
from app.engine.steps.moves import is_before_hold, moved
from app.engine.steps.plan import Passed
from app.engine.steps.step import Step
from punctual.contract.events import NO_LATER, Event, Kind
from tables import Command, Entry, keys
from tables.entry import encode


def ended(step: Step, event: Kind, due_ms: int, entry: Entry, **fields: Any) -> None:
    """Add an event of a message: the end of its lifecycle, or one without effect on it."""
    number = occurrences.number_of(entry)
    step.tell(Event(event, entry.id, step.now_ms, entry.source, due=due_ms, to=entry.to, occurrence=number, **fields))


def cancelled(step: Step, key: bytes, entry: Entry, by: str) -> None:
    """Cancel a message by the command `by`."""
    step.remove(key, entry)
    ended(step, "cancelled", keys.due_of(key), entry, by=by)


def skipped(step: Step, entry: Entry, passed: Passed) -> None:
    """Add the event for skipped planned times, which come after the occurrence in `entry`."""
    ended(step, "skipped", passed.first_ms, entry, reason=passed.reason, count=passed.number)


def move(step: Step, key: bytes, entry: Entry, command: Command) -> bytes | None:
    """Apply a command that moves a message, within its bound, and return the key of its new row.

    None if its series has no occurrence left: then the series has ended.
    """
    step.remove(key, entry)
    outcome = moved(entry, entry.asked_due(key), command)
    if outcome.passed is not None:
        skipped(step, entry, outcome.passed)
    if outcome.over:
        ended(step, "dropped", keys.due_of(key), entry, by=command.source, reason="missed")
        return None
    stamp = entry.moved if is_before_hold(entry, command) else command.stamp
    due_ms, waiting = msgspec.structs.replace(outcome.entry, commands=(), moved=stamp).within(outcome.due_ms)
    if due_ms != keys.due_of(key) or command.op == "deliver-now":  # tries are counted for each due time
        waiting = msgspec.structs.replace(waiting, attempts=0, next_try_ms=None)
    new = keys.row_key(due_ms, command.offset, command.topic_crc)
    step.put(new, waiting, encode(waiting, step.version))
    ended(step, "rescheduled", due_ms, entry, by=command.source, reason=why(due_ms, outcome.due_ms))
    return new


def why(due_ms: int, asked_ms: int) -> str | None:
    """Return the reason why a message is due before the requested time, None if it is not."""
    return NO_LATER if due_ms < asked_ms else None
