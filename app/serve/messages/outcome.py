"""The outcome of a request or command, from its event, and in words."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from app.base.process.skipped_records import bounded
from app.serve.web.problem import Problem
from app.serve.web.problem_types import TYPES
from punctual.contract.events import decode
from punctual.durations import duration, when

#: Outcomes that are not names of events: no event came in time, none will come, or the record is not in Kafka yet.
PENDING, SENT, SPOOLED = OPEN = ("pending", "sent", "spooled")
#: Sentences for actions that move a message without a new due time to show.
_MOVED: Final = {"deliver-now": "Due now; it is being delivered.", "pause": "Paused."}


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a command: the name of an event, such as `cancelled`, or `rescheduled` (also for `deliver-now`).

    `pending`: accepted, outcome not known yet; `spooled`: on a gateway's disk until Kafka accepts it; `sent`: no event
    will come. `source` is the record's `topic-partition-offset`, `sentence` is for people, `due` is the current due
    time, and `ended` is the name of the event with which the message had ended before, if known.
    """

    outcome: str
    sentence: str
    id: str | None = None
    due: str | None = None
    due_ms: int | None = None
    source: str | None = None
    ended: str | None = None
    event: dict[str, Any] | None = None


def event_of(value: bytes | None) -> dict[str, Any] | None:
    """Return the event in a record's value; None if it is not a valid event."""
    try:
        return decode(bounded(value))
    except ValueError:
        return None


def source_of(event: Mapping[str, Any]) -> str:
    """Return the `topic-partition-offset` of the record whose outcome an event reports."""
    return str(event.get("by", event["source"]))


def of_event(action: str, source: str, event: Mapping[str, Any], ended: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of a record from its event; `ended` is the event with which the message had ended."""
    kind, before = str(event["event"]), None if ended is None else str(ended["event"])
    sentence = _sentence(action, event, ended)
    return Outcome(outcome=kind, sentence=sentence, source=source, ended=before, event=dict(event))


def problem_of(outcome: Outcome, *, conditional: bool = False, **members: Any) -> Problem | None:
    """Return the problem for an outcome, None if the record took effect.

    Programs that check only the HTTP status must see the failure. With `conditional` the command named the due time
    that it expected.
    """
    kind = {"unknown": "unknown-message", "conflict": "conflict", "stale": "stale"}.get(outcome.outcome)
    if outcome.outcome in ("unknown", "conflict") and outcome.ended == "delivered":
        kind = "came-too-late"
    elif outcome.outcome == "conflict" and conditional:
        kind = "changed"
    elif outcome.outcome == "refused":
        kind = str((outcome.event or {}).get("reason", "malformed"))
    if kind is None:
        return None
    fields = {"outcome": outcome.outcome, "source": outcome.source, "ended": outcome.ended, "event": outcome.event}
    members |= {name: value for name, value in fields.items() if value is not None}
    return Problem(kind if kind in TYPES else "malformed", outcome.sentence, **members)


def _sentence(action: str, event: Mapping[str, Any], ended: Mapping[str, Any] | None) -> str:
    kind, due_ms = event["event"], event.get("due")
    at = "" if due_ms is None else f", due {when(due_ms, event['at'])}"
    sentences = {
        "accepted": f"Accepted{at}.",
        "cancelled": "Cancelled.",
        "rescheduled": _MOVED.get(action, f"{'Resumed' if action == 'resume' else 'Rescheduled'}{at}."),
        "stale": "No change: a later request replaced this one.",
        "dropped": "The recurring message has ended: its last occurrence was planned during the pause.",
        "duplicate": "No change: the same message has already been delivered.",
        "deferred": "Not pending on the workers: the request was passed on to the cold tier.",
        "refused": f"Refused ({event.get('reason', 'no reason')}). See its dead letter for details.",
    }
    if kind in ("conflict", "unknown"):
        return _too_late(action, kind, event, ended)
    return sentences.get(kind, f"The worker reported the event {kind}.")


def _too_late(action: str, kind: str, event: Mapping[str, Any], ended: Mapping[str, Any] | None) -> str:
    if ended is not None and ended["event"] == "delivered":
        return f"Too late: the message was delivered {_before(event, ended)} earlier."
    if ended is not None:
        return f"No longer pending: the message was {ended['event']} {_before(event, ended)} earlier."
    if kind == "conflict" and action in ("pause", "resume"):
        return "No change: the message does not recur, or its due time has changed since you last saw it."
    if kind == "conflict":
        return "No change: the message is being delivered, or its due time has changed since you last saw it."
    return "No message with this ID is pending."


def _before(event: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    return duration(max(0, event["at"] - ended["at"]))
