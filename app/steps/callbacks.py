"""Failure callbacks: a message that cannot be accepted or delivered goes back to its sender's URL (delay-on-failure).

A callback waits in the table like a message, so it survives whatever a message survives. The dead letter is written in
any case.
"""

import base64
from typing import Any

import msgspec

from app.http.allow_list import AllowList, NotListed, allow_list
from app.steps.step import Step
from punctual.contract.headers import REASON
from punctual.contract.request import Reason, Refusal
from tables import Entry, keys
from tables.entry import encode

#: What `*` stands for here.
_USUAL = ("https", "http")


def check(url: str, allowed: tuple[str, ...], called: str) -> None:
    """Refuse a callback URL that the settings do not allow, and that is `called` so in a request.

    Raises Refusal.
    """
    try:
        urls(allowed).allowed(url)
    except NotListed as error:
        raise Refusal(
            Reason.NOT_ALLOWED,
            f"DELAY_CALLBACKS does not allow {url[:200]!r} ({called}): it {error}. Add a pattern, or drop the header.",
        ) from error
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{called} {error}.") from error


def urls(patterns: tuple[str, ...]) -> AllowList:
    """Return which URLs DELAY_CALLBACKS allows: a worker is no means to reach others' hosts."""
    return allow_list(patterns, _USUAL)


def is_allowed(url: str, allowed: tuple[str, ...]) -> bool:
    """Return whether the settings allow a callback URL."""
    try:
        urls(allowed).allowed(url)
    except ValueError:
        return False
    return True


def queue(
    step: Step, row: bytes, entry: Entry, reason: Reason, sentence: str, limit: int, body: bytes | None = None
) -> None:
    """Add to `step` the callback of a message that failed, if it asks for one; the key of its `row` lends the rest.

    A dialect may have a `body` of its own, beside which a header has the reason. A callback that would be larger than
    `limit` bytes leaves the message's content out and says so, in the usual body.
    """
    if entry.on_failure is None:
        return
    waiting = _waiting(entry, reason, sentence) if body is None else _returned(entry, reason, body)
    raw = encode(waiting, step.version)
    if len(raw) > limit:
        sentence += " (Key, value and headers are left out here: the callback would be too large.)"
        waiting = _waiting(msgspec.structs.replace(entry, key=None, value=None, headers=[]), reason, sentence)
        raw = encode(waiting, step.version)
    if len(raw) <= limit:
        # A key is written once: of a message that fails in the very millisecond in which it is due, it is the next one.
        step.put(keys.with_due(row, step.now_ms + (keys.due_of(row) == step.now_ms)), waiting, raw)


def _waiting(entry: Entry, reason: Reason, sentence: str) -> Entry:
    """Return the row of a callback."""
    body = msgspec.json.encode(
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
    return Entry(entry.id, "", None, body, [], entry.source, url=entry.on_failure)


def _returned(entry: Entry, reason: Reason, body: bytes) -> Entry:
    """Return the row of a callback that has its dialect's body."""
    return Entry(entry.id, "", None, body, [(REASON, reason.value.encode())], entry.source, url=entry.on_failure)


def _text(raw: bytes | None) -> Any:
    """Return bytes as JSON can carry them: text if they are UTF-8, else {"base64": …}."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
