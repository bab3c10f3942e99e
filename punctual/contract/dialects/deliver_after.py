"""The dialect of delayed topics: the header deliverAfter sets the due time, the input's setting the destination.

Key, value and headers are delivered unchanged. Without the header a record is due at once.
"""

from typing import Final

from punctual.contract.dialects import native_headers
from punctual.contract.dialects.fields import fields
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request
from punctual.contract.times import parse_time
from punctual.contract.words import Words

DELIVER_AFTER: Final = "deliverAfter"

WORDS: Final = Words(to="the destination of DELAY_INPUTS", due=DELIVER_AFTER)


def decode(record: Record, to: str | None = None) -> Request:
    """Return the request in a record; `to` is its input's destination. Raises Refusal."""
    headers, users = native_headers.read(record)
    here = [header for header in users if header[0] == DELIVER_AFTER]
    text = fields(here, DELIVER_AFTER, DELIVER_AFTER).get(DELIVER_AFTER)
    return native_headers.unchanged(record, WORDS, headers, users, None if text is None else _due_ms(text), to)


def _due_ms(text: str) -> int:
    try:
        if text.isdigit():
            return parse_time(text)
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{DELIVER_AFTER}: {error}.") from error
    raise Refusal(Reason.MALFORMED, f"{DELIVER_AFTER} is {text[:64]!r}. It must be epoch milliseconds in ASCII digits.")
