"""Failure callbacks: a message that cannot be accepted or delivered goes back to its sender's URL (delay-on-failure).

A callback is a row of the table, so it is as durable as a message. The dead letter is always written too.
"""

import base64
from typing import Any

import msgspec

from app.base.http.allow_list import AllowList, NotListed
from app.engine.steps import occurrences
from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from punctual.contract.destination import shown
from punctual.contract.headers import REASON
from punctual.contract.request import Reason, Refusal
from tables import Entry, keys
from tables.entry import encode


def check(url: str, allowed: AllowList, called: str) -> None:
    """Raise Refusal if `allowed`, the patterns of the request's input, does not allow a callback URL.

    `called` is the header or field that holds the URL in the request.
    """
    try:
        allowed.allowed(url)
    except NotListed as error:
        raise Refusal(
            Reason.NOT_ALLOWED,
            f"DELAY_CALLBACKS does not allow {shown(url)[:200]!r} ({called}): it {error}. Add a pattern, or leave "
            "the header out.",
        ) from error
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{called} {error}.") from error


def is_allowed(url: str, allowed: AllowList) -> bool:
    """Return whether a callback URL is allowed, so that workers cannot be made to reach other hosts."""
    try:
        allowed.allowed(url)
    except ValueError:
        return False
    return True


def queue(
    context: PartitionContext,
    step: Step,
    row: bytes,
    entry: Entry,
    reason: Reason,
    sentence: str,
    body: bytes | None = None,
) -> None:
    """Add the callback of a failed message to `step` if the message asks for one, under a key like that of its `row`.

    A dialect may give the `body`; the reason is then in a header. If the callback, together with the next occurrence in
    the same step, would be larger than a row can be, it has the default body without the message's key, value and
    headers.
    """
    if entry.on_failure is None:
        return
    due_ms, limit = keys.due_of(row), context.limits.row
    beside = 0 if entry.series is None else len(encode(entry, step.version))
    failed, source = occurrences.occurrence(entry, due_ms), occurrences.source_of(entry, due_ms)
    headers = [] if body is None else [(REASON, reason.value.encode())]
    body = _body(failed, reason, sentence) if body is None else body
    waiting = Entry(failed.id, "", None, body, [*headers], source, url=entry.on_failure)
    raw = encode(waiting, step.version)
    if len(raw) > limit - beside:
        sentence += " (Key, value and headers are left out, because the callback would be too large.)"
        body = _body(msgspec.structs.replace(failed, key=None, value=None, headers=[]), reason, sentence)
        waiting = msgspec.structs.replace(waiting, value=body, headers=[])
        raw = encode(waiting, step.version)
    if len(raw) <= limit:
        step.put(context.free_key(step, row, step.broker_ms), waiting, raw)


def _body(entry: Entry, reason: Reason, sentence: str) -> bytes:
    """Return the JSON of a callback for a message."""
    return msgspec.json.encode(
        {
            "id": entry.id,
            "topic": entry.to,
            "key": _text(entry.key),
            "value": _text(entry.value),
            "headers": [[name, _text(value)] for name, value in entry.headers],
            "source": entry.source,
            "reason": reason.value,
            "error": sentence,
        }
    )


def _text(raw: bytes | None) -> Any:
    """Return bytes as JSON can carry them: text if they are UTF-8, else {"base64": …}."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
