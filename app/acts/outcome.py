"""What came of an order, as its event tells it, and in words."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from app.steps.events import decode
from punctual.contract.times import write_time

#: What an order can come to beside what events are called.
PENDING, SENT = "pending", "sent"
#: Spans below are told to the millisecond.
_EXACT_MS: Final = 10_000
#: Acts that move a message, of which the due time is not what matters.
_MOVED: Final = {
    "deliver-now": "It is delivered now.",
    "pause": "It is paused: no occurrence is delivered until it is resumed.",
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of an order: an event's name, `sent` if events are switched off, `pending` if nobody has told in time.

    `source` is the order's own record, `sentence` is for people, and `ended` what the event is called by which the
    message had ended before, as far as that is known. `warning` says that a cron expression is unlikely to mean what it
    says.
    """

    outcome: str
    sentence: str
    source: str
    ended: str | None = None
    event: dict[str, Any] | None = None
    warning: str | None = None


def event_of(value: bytes | None) -> dict[str, Any] | None:
    """Return the event that a record's value is; None if it cannot be one of ours, on whichever topic it is."""
    try:
        return decode(value)
    except ValueError:
        return None


def tells_of(event: Mapping[str, Any], source: str) -> bool:
    """Return whether an event tells what came of an order, the record `source`: `topic-partition-offset`."""
    return bool(event.get("by", event["source"]) == source)


def of_event(act: str, source: str, event: Mapping[str, Any], ended: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of an order by the event that tells of it; `ended` is how the message's life had ended."""
    kind, before = str(event["event"]), None if ended is None else str(ended["event"])
    sentence = _sentence(act, event, ended)
    return Outcome(outcome=kind, sentence=sentence, source=source, ended=before, event=dict(event))


def _sentence(act: str, event: Mapping[str, Any], ended: Mapping[str, Any] | None) -> str:
    kind, due = event["event"], event.get("due")
    at = _written(due)
    said = {
        "accepted": f"It is accepted, and due at {at}.",
        "cancelled": "It is cancelled: it will not be delivered.",
        "rescheduled": _MOVED.get(act, f"It is due at {at} now."),
        "stale": "Nothing has changed: a later request or command applies.",
        "dropped": "The series has ended: its last occurrence was planned while it was paused.",
        "duplicate": "Nothing has changed: the same message has been delivered already.",
        "deferred": "It is not pending here: the command was forwarded to the cold tier.",
        "refused": f"It is refused ({event.get('reason', 'no reason')}); see its dead letter.",
    }
    if kind in ("conflict", "unknown"):
        return _too_late(act, kind, event, ended)
    return said.get(kind, f"Its event is called {kind}.")


def _too_late(act: str, kind: str, event: Mapping[str, Any], ended: Mapping[str, Any] | None) -> str:
    if ended is not None and ended["event"] == "delivered":
        return f"It came too late: the message was delivered {_ago(event['at'] - ended['at'])} earlier."
    if ended is not None:
        return f"It is not pending any more: it was {ended['event']} {_ago(event['at'] - ended['at'])} earlier."
    if kind == "conflict" and act in ("pause", "resume"):
        return "Nothing has changed: it does not recur, or is due at another time now."
    if kind == "conflict":
        return "Nothing has changed: it is being delivered, or is due at another time now."
    return "No message with this id is pending."


def _written(due_ms: int | None) -> str:
    try:
        return "then" if due_ms is None else write_time(due_ms)
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"{due_ms} ms after 1970"


def _ago(ms: int) -> str:
    return f"{max(ms, 0)} ms" if ms < _EXACT_MS else f"{ms // 1_000:,} s"
