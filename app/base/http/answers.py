"""The meaning of a response: delivered, try again (and when), or never again."""

import email.utils
from datetime import UTC
from enum import Enum
from typing import Final, NamedTuple

_OK: Final = range(200, 300)
_GONE: Final = 410
#: Statuses caused by the whole host, which gets no requests for a while.
_BUSY: Final = frozenset({429, 502, 503, 504})
#: The maximum time by which a response can postpone the next try.
LONGEST_WAIT_MS: Final = 86_400_000
_DIGITS = 9


class Meaning(Enum):
    """What to do after a try."""

    TAKEN = "taken"
    AGAIN = "again"
    NEVER = "never"


class HttpOutcome(NamedTuple):
    """The outcome of a request: its meaning, the reason in a word or two, and whether the whole host is the cause.

    `after_ms` is the pause that the host asks for; `status` is the status of its response, 0 without a response.
    """

    meaning: Meaning
    why: str = ""
    of_host: bool = False
    after_ms: int | None = None
    status: int = 0


TAKEN: Final = HttpOutcome(Meaning.TAKEN)


def answer_of(status: int, retry_after: str | None, now_ms: int) -> HttpOutcome:
    """Return the outcome of a response with this status, at `now_ms` by this worker's clock."""
    if status in _OK:
        return TAKEN._replace(status=status)
    if status == _GONE:
        return HttpOutcome(Meaning.NEVER, f"HTTP {status}", status=status)
    after_ms = None if retry_after is None else _wait_ms(retry_after, now_ms)
    return HttpOutcome(Meaning.AGAIN, f"HTTP {status}", status in _BUSY, after_ms, status)


def _wait_ms(text: str, now_ms: int) -> int | None:
    """Return the wait in `Retry-After`, in seconds or until an HTTP date (RFC 9110, 10.2.3), up to the maximum."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        wait_ms = int(text) * 1000 if len(text) <= _DIGITS else LONGEST_WAIT_MS
    else:
        try:
            until = email.utils.parsedate_to_datetime(text[:64])
            until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
            wait_ms = round(until.timestamp() * 1000) - now_ms
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0, min(wait_ms, LONGEST_WAIT_MS))
