"""Failure callbacks: a message that cannot be accepted or delivered goes back to its sender's URL (delay-on-failure).

A callback waits in the table like a message, so it survives whatever a message survives. The dead letter is written in
any case.
"""

import base64
import fnmatch
import re
from typing import Any

import msgspec
import yarl

from app.steps.step import Step
from punctual.contract.headers import REASON
from punctual.contract.request import Reason, Refusal
from tables import Entry, keys
from tables.entry import encode

#: Those that are longer are not even read: that takes seconds of a mebibyte.
_LONGEST = 2_048
#: What some servers read as a dot, a slash or a way out of a path, once or twice decoded, where others see a name.
_DOUBTFUL = re.compile(r"%(?:25)*(?:2e|2f|5c)|/\.\.?(?:[;/]|$)", re.IGNORECASE)


def check(url: str, allowed: tuple[str, ...], called: str) -> None:
    """Refuse a callback URL that the settings do not allow, and that is `called` so in a request.

    Raises Refusal.
    """
    if len(url) > _LONGEST:
        raise Refusal(Reason.MALFORMED, f"{called} has {len(url):,} characters, at most {_LONGEST:,} can be.")
    if not is_allowed(url, allowed):
        raise Refusal(
            Reason.NOT_ALLOWED,
            f"DELAY_CALLBACKS does not allow {url[:200]!r} ({called}). Add a pattern, or drop the header.",
        )


def is_allowed(url: str, allowed: tuple[str, ...]) -> bool:
    """Return whether the settings allow a callback URL: a worker is no means to reach others' hosts."""
    if len(url) > _LONGEST:
        return False
    try:
        target = yarl.URL(url)  # as aiohttp reads it
        alone = bool(target.host) and target.raw_user is None and target.raw_password is None
        return alone and any(_admits(pattern, target) for pattern in allowed)
    except (ValueError, IndexError):  # the latter where brackets or percent signs are wrong (yarl/_parse.py)
        return False


def _admits(pattern: str, target: yarl.URL) -> bool:
    """Return whether a pattern admits a URL: scheme and host are compared by themselves, no part of a path is one.

    yarl has normalised the path, and aiohttp asks for that one. A pattern with a path admits none that can be misread.
    """
    if pattern == "*":
        return True
    scheme, _, rest = pattern.partition("://")
    host, slash, path = rest.partition("/")
    return (
        target.scheme == scheme
        and fnmatch.fnmatchcase(target.raw_authority, host)
        and (not slash or _is_below(slash + path, target))
    )


def _is_below(path: str, target: yarl.URL) -> bool:
    return fnmatch.fnmatchcase(target.raw_path_qs, path) and _DOUBTFUL.search(target.raw_path) is None


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
