"""What an answer means: taken, try again and when, or never again."""

import email.utils
from datetime import UTC
from enum import Enum
from typing import Final, NamedTuple

_OK: Final = range(200, 300)
_GONE: Final = 410
#: Of these the whole host is the cause: it is left alone for a while.
_BUSY: Final = frozenset({429, 502, 503, 504})
#: No answer can put a try off for longer.
LONGEST_WAIT_MS: Final = 86_400_000
_DIGITS = 9


class Meaning(Enum):
    """What is to be done after a try."""

    TAKEN = "taken"
    AGAIN = "again"
    NEVER = "never"


class HttpOutcome(NamedTuple):
    """What came of a request: what it means, why in a word or two, and whether the whole host is the cause.

    `after_ms` is how long the host wants to be left alone, `status` what it has answered, 0 if it has not.
    """

    meaning: Meaning
    why: str = ""
    of_host: bool = False
    after_ms: int | None = None
    status: int = 0


TAKEN: Final = HttpOutcome(Meaning.TAKEN)


def answer_of(status: int, retry_after: str | None, now_ms: int) -> HttpOutcome:
    """Return what a status means, at `now_ms` by this worker's clock."""
    if status in _OK:
        return TAKEN._replace(status=status)
    if status == _GONE:
        return HttpOutcome(Meaning.NEVER, f"HTTP {status}", status=status)
    after_ms = None if retry_after is None else _wait_ms(retry_after, now_ms)
    return HttpOutcome(Meaning.AGAIN, f"HTTP {status}", status in _BUSY, after_ms, status)


def _wait_ms(text: str, now_ms: int) -> int | None:
    """Return how long `Retry-After` asks to wait, in seconds or until an HTTP date (RFC 9110, 10.2.3); bounded."""
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
