"""JSON values of other dialects: parsed with the path of each error, and content that keeps its digits."""

import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Final, Generic, TypeVar

import msgspec

from punctual.contract.json_fields import SHORT, TooManyFieldsError, fields
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal

T = TypeVar("T", bound=msgspec.Struct)

#: The maximum size. Parsing a mebibyte of JSON takes up to 8 ms of the event loop, and compressed it is cheap to send.
#: JSON needs at most six bytes for a byte of a message (\u0041), and Kafka's default maximum is a mebibyte.
MAX_BYTES: Final = 6 << 20
_text = msgspec.json.Decoder(str).decode
#: The maximum digits: exact arithmetic with a megabyte of digits takes minutes.
_DIGITS: Final = 64
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`(?: - at `([^`]*)`)?")
#: Types of JSON, by msgspec's names and in the words of senders.
_TYPES: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number with a fraction",
    "object": "a JSON object",
    "array": "a list",
    "bool": "true or false",
    "null": "null",
}


class Reader(Generic[T]):
    """Parses records' values as structs of one kind, ignoring unknown fields."""

    def __init__(self, kind: type[T], due: str, objects: Collection[str] = ()) -> None:
        """Parse structs of `kind`; the field `due` has the due time, and `objects` are fields with any names inside."""
        self._decoder, self._due, self._objects = msgspec.json.Decoder(kind), due, objects
        self._names = [field.encode_name for field in msgspec.structs.fields(kind)]
        self._quoted = [f'"{name}"'.encode() for name in self._names]
        #: Attributes by the names of their fields, for fields that are kept as raw JSON.
        self._raw = {one.encode_name: one.name for one in msgspec.structs.fields(kind) if one.type is msgspec.Raw}

    def read(self, record: Record) -> T:
        """Return the parsed value of a record. Raises Refusal, with the path of the error."""
        raw = record.value
        if raw is None:
            raise Refusal(Reason.MALFORMED, "the value is null. It must be a JSON object.")
        if len(raw) > MAX_BYTES:
            sentence = f"the value has {len(raw):,} bytes of JSON. The maximum is {MAX_BYTES:,}."
            raise Refusal(Reason.TOO_LARGE, sentence)
        try:
            raw.decode()  # msgspec does not check ignored fields for UTF-8
            # A name that occurs several times may be in a nested object.
            if len(raw) > SHORT or any(raw.count(name) > 1 for name in self._quoted):
                return self._read_field_by_field(raw)
            return self._decoder.decode(raw)
        except UnicodeDecodeError as error:
            raise Refusal(Reason.MALFORMED, f"the value is not JSON in UTF-8: {error}.") from error
        except msgspec.MsgspecError as error:
            raise Refusal(Reason.MALFORMED, _in_words(error)) from error
        except RecursionError as error:
            raise Refusal(Reason.MALFORMED, "the value is JSON with too many levels of nesting.") from error

    def _read_field_by_field(self, raw: bytes) -> T:
        """Return the same result as the decoder in one pass, which ends at too many fields.

        Raises Refusal for too many fields, and for a repeated field, where msgspec would use the last one.
        """
        raw_fields, repeated = _bounded(raw, "the value")
        for name in self._names:
            if name in repeated:
                reason = Reason.AMBIGUOUS_DUE if name == self._due else Reason.MALFORMED
                raise Refusal(reason, f"`$.{name}` is given twice. Send it once.")
        small = {name: bytes(raw_fields[name]) for name in self._names if name in raw_fields and name not in self._raw}
        for name in self._objects:
            if small.get(name, b"").startswith(b"{"):
                _bounded(small[name], f"`$.{name}`")
        body = self._decoder.decode(
            b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), one) for name, one in small.items())
        )
        for name, attribute in self._raw.items():
            if name in raw_fields:
                setattr(body, attribute, raw_fields[name])
        return body


def _bounded(raw: bytes, path: str) -> tuple[dict[str, msgspec.Raw], set[str]]:
    """Return the fields of the object at `path`, and the repeated names. Raises Refusal."""
    try:
        return fields(raw)
    except TooManyFieldsError as error:
        raise Refusal(Reason.TOO_LARGE, f"{path} is {error}. Send fewer.") from error


def number(raw: msgspec.Raw, path: str) -> Decimal | None:
    """Return the number at `path`, as a number or as text, which some languages write; None without a value.

    Raises Refusal.
    """
    text = bytes(raw).decode()
    if text.startswith('"'):
        text = _text(text).strip()
    if text in ("", "null"):
        return None
    if len(text) > _DIGITS:
        raise Refusal(Reason.MALFORMED, f"`{path}` has more than {_DIGITS} digits. Round it.")
    try:
        decimal = Decimal(text) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        decimal = None
    if decimal is None or not decimal.is_finite():
        raise Refusal(Reason.MALFORMED, f"`{path}` is {text[:64]}. It must be a number.")
    return decimal


def _in_words(error: msgspec.MsgspecError) -> str:
    """Return a sentence for msgspec's error."""
    text = str(error)
    mismatch = _EXPECTED.search(text)
    if mismatch is not None:
        expected, got, path = mismatch.groups()
        wanted = " or ".join(_TYPES.get(kind, kind) for kind in expected.split(" | "))
        what = "the value" if path is None else f"a part of `{path[:-5]}`" if path.endswith("[...]") else f"`{path}`"
        return f"{what} is {_TYPES.get(got, got)}. It must be {wanted}."
    if "truncated" in text:
        return "the value is not valid JSON: it ends too early."
    place = _BYTE.search(text)
    return f"the value is not valid JSON{f': unexpected byte at offset {place[1]}' if place else ''}."


def content(raw: msgspec.Raw, path: str) -> bytes:
    """Return the content to deliver: a string's UTF-8, or any other JSON in compact form with its original digits.

    Raises Refusal if there is no value at `path`, or a string without valid UTF-8.
    """
    text = bytes(raw)
    if not text:
        raise Refusal(Reason.MALFORMED, f"`{path}` is missing. Set it to the content of the message.")
    try:
        # Not through float, which would change digits.
        return _text(text).encode() if text.startswith(b'"') else msgspec.json.format(text, indent=-1)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refusal(Reason.MALFORMED, f"`{path}` cannot be delivered: it is not valid JSON.") from error
