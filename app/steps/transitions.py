"""What a step does to a message that waits: it ends, or moves to another due time."""

from typing import Any

import msgspec

from app.steps.events import Event, Kind
from app.steps.step import Step
from tables import Command, Entry, keys
from tables.entry import encode


def ended(step: Step, event: Kind, due_ms: int, entry: Entry, **said: Any) -> None:
    """Add the event that ends a message's lifecycle, or that says what did not."""
    step.tell(Event(event, entry.id, step.now_ms, entry.source, due=due_ms, to=entry.to, **said))


def cancelled(step: Step, key: bytes, entry: Entry, by: str) -> None:
    """End a message by a cancel."""
    step.remove(key, entry)
    ended(step, "cancelled", keys.due_of(key), entry, by=by)


def move(step: Step, key: bytes, entry: Entry, command: Command) -> bytes:
    """Return a message another due time, and with it another row, whose key is returned."""
    step.remove(key, entry)
    # Tries belong to a due time: they begin anew.
    waiting = msgspec.structs.replace(entry, commands=(), moved=command.order, attempts=0, next_try_ms=None)
    new = keys.row_key(command.due_ms, command.offset, command.topic_crc)
    step.put(new, waiting, encode(waiting, step.version))
    step.tell(
        Event("rescheduled", entry.id, step.now_ms, entry.source, due=command.due_ms, to=entry.to, by=command.source)
    )
    return new
