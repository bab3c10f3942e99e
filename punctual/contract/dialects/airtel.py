"""The dialect of JSON with a post time.

A request is `{"topic", "key"?, "value", "headers"?, "postTime", "failurePostCallbackUrl"?}`, with epoch milliseconds.
The delivery has the key, value and headers of the JSON; of the record's own headers only native ones are used.
"""

import contextlib
import math
from fractions import Fraction
from typing import Final

import msgspec

from punctual.contract import headers as names
from punctual.contract import native
from punctual.contract.dialects import native_headers
from punctual.contract.dialects.json_body import Reader, content, number
from punctual.contract.dialects.native_headers import Own
from punctual.contract.message import Message
from punctual.contract.record import Record
from punctual.contract.request import Headers, Reason, Refusal, Request
from punctual.contract.words import Words

WORDS: Final = Words(to="`$.topic`", due="`$.postTime`", on_failure="`$.failurePostCallbackUrl`")
_DIGITS: Final = 15
#: Seconds have ten digits from 2001 to 2286, and nine before. The example in the senders' documentation has eleven.
_SECONDS = range(10**8, 10**10)


class _AirtelBody(msgspec.Struct, rename="camel"):
    topic: str | None = None
    key: str | None = None
    value: msgspec.Raw = msgspec.Raw()
    headers: dict[str, str | None] | None = None
    post_time: msgspec.Raw = msgspec.Raw()
    failure_post_callback_url: str | None = None


class _AirtelFailure(msgspec.Struct, rename="camel"):
    failure_post_callback_url: str | None = None


_encode = msgspec.json.Encoder().encode
_body = Reader(_AirtelBody, "postTime", objects=("headers",))
_failure = Reader(_AirtelFailure, "")


def decode(record: Record) -> Request:
    """Return the request in a record. Raises Refusal."""
    headers, _ = native_headers.read(record)
    if native_headers.is_command(headers):
        return native_headers.request(record, WORDS, headers, Own(), None, None, [])
    body = _body.read(record)
    own = Own(to=body.topic, due_ms=_due_ms(body.post_time), on_failure=body.failure_post_callback_url or None)
    key = None if body.key is None else body.key.encode()
    value = content(body.value, "$.value")
    return native_headers.request(record, WORDS, headers, own, key, value, _headers(body.headers))


def callback(record: Record) -> tuple[str, Headers]:
    """Return the URL to notify of a refused record, "" for none, and the record's own headers.

    The URL is in the JSON or in a header; if they contradict each other, there is none.
    """
    by_header, _ = native.callback(record)
    try:
        by_body = _failure.read(record).failure_post_callback_url or ""
    except Refusal:
        by_body = ""
    if by_header and by_body and by_header != by_body:
        return "", []
    url = by_header or by_body
    prefix = names.PREFIX
    users = [(names.legible(name), value) for name, value in record.headers if url and not name.startswith(prefix)]
    return url, users


def returned(message: Message, due_ms: int) -> bytes | None:
    """Return the JSON that requests a message with this due time, for its sender; None if that is not possible.

    Rows have only the decoded parts. A value that is compact JSON stays JSON, any other becomes text: if the JSON is
    sent again, the delivery has the same bytes.
    """
    try:
        return _encode(
            _AirtelBody(
                message.to,
                None if message.key is None else message.key.decode(),
                _json(message.value or b""),
                {name: None if value is None else value.decode() for name, value in message.headers},
                msgspec.Raw(b"%d" % due_ms),
                message.on_failure,
            )
        )
    except UnicodeDecodeError:  # the input had another dialect before, with other headers
        return None


def _json(value: bytes) -> msgspec.Raw:
    if not value.startswith(b'"'):
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            if msgspec.json.format(value, indent=-1) == value:
                return msgspec.Raw(value)
    return msgspec.Raw(_encode(value.decode()))


def _due_ms(raw: msgspec.Raw) -> int | None:
    """Return the post time, a fraction of a millisecond rounded up; None without one. Raises Refusal."""
    text = bytes(raw)
    if text.isdigit() and len(text) <= _DIGITS:  # the usual form
        post_time = int(text)
    else:
        due_ms = number(raw, "$.postTime")
        if due_ms is None:
            return None
        if due_ms < 0 or (due_ms and due_ms.adjusted() >= _DIGITS):
            sentence = f"`$.postTime` is {due_ms}, and it must be epoch milliseconds: 0 or more, and at most 15 digits."
            raise Refusal(Reason.MALFORMED, sentence)
        post_time = math.ceil(Fraction(due_ms)) if due_ms.adjusted() >= 0 else bool(due_ms)
    if post_time in _SECONDS:
        sentence = f"`$.postTime` is {post_time}, which looks like seconds. Give epoch milliseconds."
        raise Refusal(Reason.MALFORMED, sentence)
    return post_time


def _headers(given: dict[str, str | None] | None) -> Headers:
    for name in given or ():
        if name.startswith(names.PREFIX):
            sentence = f"`$.headers` has {name[:64]!r}, which is a header of Punctual. Set it on the record instead."
            raise Refusal(Reason.MALFORMED, sentence)
    return [(name, None if value is None else value.encode()) for name, value in (given or {}).items()]
