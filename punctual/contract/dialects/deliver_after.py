"""The dialect of delayed topics: the header deliverAfter says when, the input's setting where it goes.

Key, value and headers are delivered unchanged. Without the header a record is due as soon as it is there.
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
    """Return the request that a record makes, for the destination `to` of its input. Raises Refusal."""
    said, users = native_headers.read(record)
    here = [header for header in users if header[0] == DELIVER_AFTER]
    text = fields(here, DELIVER_AFTER, DELIVER_AFTER).get(DELIVER_AFTER)
    return native_headers.unchanged(record, WORDS, said, users, None if text is None else _due_ms(text), to)


def _due_ms(text: str) -> int:
    try:
        if text.isdigit():
            return parse_time(text)
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{DELIVER_AFTER}: {error}.") from error
    raise Refusal(Reason.MALFORMED, f"{DELIVER_AFTER} is {text[:64]!r}. It must be epoch milliseconds in ASCII digits.")
