"""What a step does to a message that waits: it ends, or moves to another due time."""

from typing import Any

import msgspec

from app.steps import occurrences
from app.steps.events import NO_LATER, Event, Kind
from app.steps.step import Step
from tables import Command, Entry, keys
from tables.entry import encode


def ended(step: Step, event: Kind, due_ms: int, entry: Entry, **said: Any) -> None:
    """Add the event that ends a message's lifecycle, or that says what did not."""
    number = occurrences.number_of(entry)
    step.tell(Event(event, entry.id, step.now_ms, entry.source, due=due_ms, to=entry.to, occurrence=number, **said))


def cancelled(step: Step, key: bytes, entry: Entry, by: str) -> None:
    """End a message by a cancel."""
    step.remove(key, entry)
    ended(step, "cancelled", keys.due_of(key), entry, by=by)


def move(step: Step, key: bytes, entry: Entry, command: Command) -> bytes:
    """Give a message another due time, no later than it may be, and with it another row, whose key is returned."""
    step.remove(key, entry)
    asked_ms, waiting = occurrences.moved(entry, command.op, command.due_ms, step.broker_ms)
    due_ms, waiting = msgspec.structs.replace(waiting, commands=(), moved=command.order).within(asked_ms)
    if due_ms != keys.due_of(key) or command.op == "deliver-now":  # tries belong to a due time: they begin anew
        waiting = msgspec.structs.replace(waiting, attempts=0, next_try_ms=None)
    new = keys.row_key(due_ms, command.offset, command.topic_crc)
    step.put(new, waiting, encode(waiting, step.version))
    ended(step, "rescheduled", due_ms, entry, by=command.source, reason=why(due_ms, asked_ms))
    return new


def why(due_ms: int, asked_ms: int) -> str | None:
    """Return the reason why a message is due before the time asked for, None if it is not."""
    return NO_LATER if due_ms < asked_ms else None
