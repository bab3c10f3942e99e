"""The dialect of JSON with a countdown: `{"topic", "message", "countdown"}`, in seconds from the record's timestamp."""

import math
from fractions import Fraction
from typing import Final

import msgspec

from punctual.contract.dialects import native_headers
from punctual.contract.dialects.json_body import Reader, content, number
from punctual.contract.dialects.native_headers import Own
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request
from punctual.contract.words import Words

WORDS: Final = Words(to="`$.topic`", due="`$.countdown`")
#: The maximum and minimum exponent of seconds: durations are below 10^15 ms, and less than 10^-30 s counts as 0.
_MOST, _LEAST = 12, -30


class _CountdownBody(msgspec.Struct):
    topic: str | None = None
    message: msgspec.Raw = msgspec.Raw()
    countdown: msgspec.Raw = msgspec.Raw()


_body = Reader(_CountdownBody, "countdown")


def decode(record: Record) -> Request:
    """Return the request in a record, with the record's key and all its headers. Raises Refusal."""
    headers, users = native_headers.read(record)
    if native_headers.is_command(headers):
        return native_headers.request(record, WORDS, headers, Own(), None, None, users)
    body = _body.read(record)
    span_ms = _span_ms(body.countdown)
    own = Own(to=body.topic, due_ms=None if span_ms is None else record.timestamp + span_ms)
    return native_headers.request(record, WORDS, headers, own, record.key, content(body.message, "$.message"), users)


def _span_ms(raw: msgspec.Raw) -> int | None:
    """Return seconds in milliseconds, rounded up; None without a value. Raises Refusal."""
    text = bytes(raw)
    if len(text) <= _MOST and text.isdigit():  # the usual form
        return int(text) * 1000
    seconds = number(raw, "$.countdown")
    if seconds is None:
        return None
    if seconds < 0:
        raise Refusal(Reason.MALFORMED, f"`$.countdown` is {seconds}. It must not be negative.")
    if seconds and seconds.adjusted() >= _MOST:
        raise Refusal(Reason.MALFORMED, f"`$.countdown` is {seconds}, more than 31,000 years: it is in seconds.")
    if seconds and seconds.adjusted() < _LEAST:
        return 1
    return math.ceil(Fraction(seconds) * 1000)
