"""The short form: `{"to", "at" or "after", "key", "value", "headers", "id"}`, and the other native headers."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec

from app.serve.messages import json_input
from app.serve.messages.acceptance import Draft
from app.serve.search.pending import Base64, PendingMessage
from app.serve.web.problem import Fault, Problem, pointer
from punctual.contract import headers as names
from punctual.contract.dialects.json_body import content
from punctual.contract.request import Headers, Refusal
from punctual.contract.times import moment_of, parse_duration, parse_time

T = TypeVar("T")
_LARGEST: Final = 10**15 - 1
NULL: Final = msgspec.Raw(b"null")
Number = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
#: Text, bytes, or Kafka's null.
Content = str | Base64 | None
#: Milliseconds, or text in ISO 8601 or RFC 3339.
Span = str | Number | None


class ShortForm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename=lambda name: name.replace("_", "-")):
    """A message to schedule. Its fields are the native headers without `delay-`.

    `value` is text, `{"base64": "…"}`, or any other JSON, which is delivered unchanged but without spaces. `headers` is
    an object, or a list of pairs if names repeat or their order matters.
    """

    to: str | None = None
    at: Span = None
    after: Span = None
    id: str | None = None
    key: Content = None
    value: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)
    headers: dict[str, Content] | list[tuple[str, Content]] | None = None
    to_partition: Span = None
    to_cluster: str | None = None
    max_late: Span = None
    if_late: str | None = None
    dedupe: Span = None
    on_failure: str | None = None
    no_later: Span = None
    jitter: Span = None
    retry: str | None = None
    max_attempts: Span = None
    attempt: Span = None
    every: Span = None
    cron: str | None = None
    zone: str | None = None
    until: Span = None
    count: Span = None
    misfire: str | None = None
    asked_at: Span = None


#: The header of each field.
FIELDS: Final = {
    field.encode_name: names.PREFIX + field.encode_name
    for field in msgspec.structs.fields(ShortForm)
    if field.name not in ("key", "value", "headers")
}
_PLACES: Final = {header: pointer(name) for name, header in FIELDS.items()}
_NAMES: Final = tuple(field.encode_name for field in msgspec.structs.fields(ShortForm))
_base64: Final = msgspec.json.Decoder(Base64)
#: The names that workers gave to these fields in earlier versions; they are read for this release.
_FORMER: Final = {name.replace("-", "_"): name for name in ("max-late", "if-late", "to-cluster", "to-partition")}
#: The fields of a pending message that say how it is now, and are ignored when it is sent again.
READ_ONLY: Final = {
    *(field.encode_name for field in msgspec.structs.fields(PendingMessage)),
    *("life", "looked_back_to_ms", "app_id", "exported_ms"),
}.difference(_NAMES)
#: The fields without which a message would not be the same, and what to do.
_NOT_WHOLE: Final = {
    "masked": "Its key, value and headers were masked when it was read. Send it with them, and without masked.",
    "cut": "Some fields were cut when it was read. Send the whole fields, without cut; `punctual export` reads them.",
    "paused": "It was paused. Send it without paused, and then pause it.",
}


def draft(raw: bytes, topic: str) -> Draft:
    """Return the record for a topic from JSON in the short form, also of a pending message. Raises Problem."""
    try:
        message = json_input.decode(ShortForm, raw)
    except Problem:
        rest = _only_sent(raw)
        if rest is None:
            raise
        message = json_input.decode(ShortForm, rest)
    json_input.check_unique(raw, _NAMES)
    headers: Headers = []
    for name, header in FIELDS.items():
        value: Any = getattr(message, name.replace("-", "_"))
        if value is not None:
            headers.append((header, str(value).encode()))
    headers += _users(message)
    places = _PLACES | {names.TO: pointer("to")}
    return Draft(topic, octets(message.key), _value(message.value), headers, places=places)


def _only_sent(raw: bytes) -> bytes | None:
    """Return JSON with the fields of the short form alone, None if it has no others that are known. Raises Problem."""
    fields = json_input.fields(raw)
    for name, sentence in _NOT_WHOLE.items():
        if bytes(fields.get(name, b"false")) not in (b"false", b"[]"):
            raise Problem("malformed", sentence, [Fault(pointer(name), sentence)])
    rest = {_FORMER.get(name, name): value for name, value in fields.items() if name not in READ_ONLY}
    is_known = rest.keys() != fields.keys() and len(rest) == len(fields.keys() - READ_ONLY)
    return msgspec.json.encode(rest) if is_known else None


def _users(message: ShortForm) -> Headers:
    json_input.check_headers(message.headers or ())
    pairs = message.headers.items() if isinstance(message.headers, dict) else message.headers or ()
    headers: Headers = []
    for place, (name, value) in enumerate(pairs):
        if name.startswith(names.PREFIX):
            where = pointer("headers", name if isinstance(message.headers, dict) else place)
            sentence = f"The header {name} begins with {names.PREFIX}. Use the field for it instead."
            raise Problem("malformed", sentence, [Fault(where, sentence)])
        headers.append((name, octets(value)))
    return headers


def octets(content: Content) -> bytes | None:
    """Return the bytes of a field."""
    if isinstance(content, Base64):
        return content.base64
    return None if content is None else content.encode()


def moment(name: str, span: Span) -> datetime | None:
    """Return a field with a time: epoch milliseconds, as a number or digits, or RFC 3339. Raises ValueError."""
    return _read(name, span, lambda text: moment_of(parse_time(text)))


def span_ms(name: str, span: Span) -> int | None:
    """Return a field with a duration: milliseconds, as a number or digits, or ISO 8601. Raises ValueError."""
    return _read(name, span, parse_duration)


def _read(name: str, text: Span, read: Callable[[str], T]) -> T | None:
    if text is None or text == "":
        return None
    try:
        return read(str(text))
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{name}: {error}") from error


def _value(raw: msgspec.Raw) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    if text.startswith(b"{") and b"base64" in text and _is_base64(text):
        try:
            return _base64.decode(text).base64
        except msgspec.DecodeError as error:
            sentence = 'The value is {"base64": …}, but its text is not base64 (RFC 4648, with padding).'
            raise Problem("malformed", sentence, [Fault(pointer("value", "base64"), sentence)]) from error
    try:
        return content(raw, "value")
    except Refusal as refusal:
        raise Problem("malformed", refusal.sentence, [Fault(pointer("value"), refusal.sentence)]) from refusal


def _is_base64(text: bytes) -> bool:
    """Return whether an object has the field `base64` and no other: with others it is delivered as JSON."""
    try:
        return json_input.fields(text).keys() == {"base64"}
    except Problem:
        return False
