"""The dialect of retry topics: a header sets the due time of the retry, the input's setting the destination.

Key, value and headers are delivered unchanged. Without the header a record is due at once.
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
#: The maximum length of a binary number. Text is longer: epoch milliseconds have had twelve digits since 1973.
_BINARY = 8


def decode(record: Record, to: str | None = None) -> Request:
    """Return the request in a record; `to` is its input's destination. Raises Refusal."""
    headers, users = native_headers.read(record)
    return native_headers.unchanged(record, WORDS, headers, users, _due_ms(last(users, BACKOFF)), to)


def _due_ms(value: bytes | None) -> int | None:
    """Return epoch milliseconds from a big-endian number of up to eight bytes, or from text.

    The last header of the name counts, because each retry may have added one.
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
