"""The record form of Confluent's REST proxy v3: key and value with their types, headers in base64."""

import base64
import binascii
from typing import Annotated, Final, Literal

import msgspec

from app.serve.messages import json_input
from app.serve.messages.acceptance import Draft
from app.serve.messages.short_form import NULL
from app.serve.web.problem import Fault, Problem, pointer
from punctual.contract import headers as names

Kind = Literal["BINARY", "JSON", "STRING"]
_QUANTUM: Final = 4


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key or a value. `data` is base64 for `BINARY`, text for `STRING`, any JSON for `JSON`; null is Kafka's null."""

    type: Kind
    data: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A header with its value in base64."""

    name: str
    value: str | None = None


class RecordForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record for an input topic; headers that begin with `delay-` are instructions.

    Without a `delay-id`, the message gets an ID that lives in `partition_id`. `timestamp` (RFC 3339) is ignored: the
    time of receipt counts.
    """

    partition_id: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)] | None = None
    headers: list[Header] | None = None
    key: Data | None = None
    value: Data | None = None
    timestamp: str | None = None


NAMES: Final = tuple(field.name for field in msgspec.structs.fields(RecordForm))


def draft(raw: bytes, topic: str) -> Draft:
    """Return the record for a topic from JSON in the record form. Raises Problem."""
    record = json_input.decode(RecordForm, raw)
    json_input.check_unique(raw, NAMES)
    json_input.check_headers(record.headers or ())
    headers: list[tuple[str, bytes | None]] = []
    places: dict[str, str] = {}
    for number, header in enumerate(record.headers or ()):
        where = pointer("headers", number, "value")
        headers.append((header.name, None if header.value is None else _binary(header.value, where)))
        if header.name.startswith(names.PREFIX):
            places.setdefault(header.name, where)
    return Draft(
        topic,
        _content(record.key, "key"),
        _content(record.value, "value"),
        headers,
        key_type=None if record.key is None else record.key.type,
        value_type=None if record.value is None else record.value.type,
        partition=record.partition_id,
        places=places,
        otherwise=pointer("headers"),
    )


def _content(content: Data | None, name: str) -> bytes | None:
    raw = b"null" if content is None else bytes(content.data)
    if content is None or raw == b"null":
        return None
    where = pointer(name, "data")
    if content.type == "JSON":
        return msgspec.json.format(raw, indent=-1)
    if not raw.startswith(b'"'):
        what = "a base64 string" if content.type == "BINARY" else "a string"
        raise _wrong(where, f"data={raw[:64].decode(errors='replace')} is not {what}.")
    text = json_input.decode(str, raw)
    return text.encode() if content.type == "STRING" else _binary(text, where)


def _binary(text: str, where: str) -> bytes:
    """Return the bytes of a base64 text, whose padding is optional, as with the proxy."""
    padded = text + "=" * (-len(text) % _QUANTUM)
    try:
        return base64.b64decode(padded.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _wrong(where, f"data={text[:64]!r} is not a valid base64 string.") from error


def _wrong(where: str, sentence: str) -> Problem:
    return Problem("malformed", sentence, [Fault(where, sentence)])
