"""The dialect of retry topics: a header says when the retry is due, the input's setting where it goes.

Key, value and headers are delivered unchanged. Without the header a record is due as soon as it is there.
"""

from typing import Final

from punctual.contract.dialects import native_headers
from punctual.contract.dialects.fields import last, parsed, text_of
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request
from punctual.contract.times import parse_time
from punctual.contract.words import Words

BACKOFF: Final = "retry_topic-backoff-timestamp"

WORDS: Final = Words(to="the destination of DELAY_INPUTS", due=BACKOFF)
#: Shorter than any text that says a time: epoch milliseconds have had twelve digits since 1973.
_BINARY = 8


def decode(record: Record, to: str | None = None) -> Request:
    """Return the request that a record makes, for the destination `to` of its input. Raises Refusal."""
    said, users = native_headers.read(record)
    return native_headers.unchanged(record, WORDS, said, users, _due_ms(last(users, BACKOFF)), to)


def _due_ms(value: bytes | None) -> int | None:
    """Return milliseconds of a big-endian number, of eight bytes or as few as it needs, or of text.

    The last header of the name counts: each retry may have added one.
    """
    if value is None:
        return None
    if not value:
        raise Refusal(Reason.MALFORMED, f"{BACKOFF} is empty. It must be epoch milliseconds: a big-endian number.")
    if len(value) > _BINARY:
        return parsed(BACKOFF, text_of(BACKOFF, value), parse_time)
    due_ms = int.from_bytes(value, signed=True)
    if due_ms < 0:
        raise Refusal(Reason.MALFORMED, f"{BACKOFF} is {due_ms}. It must not be negative.")
    return due_ms
