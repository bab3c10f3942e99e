"""The dialect of a header whose name the input sets: it sets the due time, the input's setting the destination.

Key, value and headers are delivered unchanged. Without the header a record is due at once.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from punctual.contract.dialects import native_headers
from punctual.contract.dialects.fields import last, parsed, text_of
from punctual.contract.record import Record
from punctual.contract.request import Request
from punctual.contract.times import parse_time
from punctual.contract.words import Words

PUBLISH_AFTER: Final = "publish-after-ts"

WORDS: Final = Words(to="the destination of DELAY_INPUTS", due=PUBLISH_AFTER)


def decode(record: Record, to: str | None = None, header: str = PUBLISH_AFTER) -> Request:
    """Return the request in a record; `to` is its input's destination. Raises Refusal.

    The last header named `header` counts, and an empty one is ignored, as in the original scheduler.
    """
    headers, users = native_headers.read(record)
    text = text_of(header, last(users, header))
    due_ms = parsed(header, text, parse_time) if text else None
    return native_headers.unchanged(record, _words(header), headers, users, due_ms, to)


@lru_cache(maxsize=100)
def _words(header: str) -> Words:
    return replace(WORDS, due=header)
