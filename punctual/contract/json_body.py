"""JSON values of other dialects: read with the path of what is wrong, and content that keeps its digits."""

import re
from decimal import Decimal, InvalidOperation
from typing import Final, Generic, TypeVar

import msgspec

from punctual.contract.native import Record
from punctual.contract.request import Reason, Refusal

T = TypeVar("T", bound=msgspec.Struct)

_text = msgspec.json.Decoder(str).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
#: Exact arithmetic with a megabyte of digits takes minutes.
_DIGITS: Final = 64
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`(?: - at `([^`]*)`)?")
#: What msgspec calls the types of JSON, and what their senders call them.
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
    """Reads what records' values say as structs of one kind; fields that these do not have are passed over."""

    def __init__(self, kind: type[T], due: str) -> None:
        """Read structs of a `kind`, of whose fields `due` says when."""
        self._decoder, self._due = msgspec.json.Decoder(kind), due
        self._names = [field.encode_name for field in msgspec.structs.fields(kind)]
        self._quoted = [f'"{name}"'.encode() for name in self._names]

    def read(self, record: Record) -> T:
        """Return what a record's value says. Raises Refusal, with the path of what is wrong."""
        raw = record.value
        if raw is None:
            raise Refusal(Reason.MALFORMED, "the value is null, and it must be a JSON object.")
        try:
            raw.decode()  # what is passed over unread need not be UTF-8 for msgspec
            body = self._decoder.decode(raw)
            if any(raw.count(name) > 1 for name in self._quoted):  # deeper inside, perhaps
                self._check_once(raw)
        except UnicodeDecodeError as error:
            raise Refusal(Reason.MALFORMED, f"the value is not UTF-8, and it must be JSON: {error}.") from error
        except msgspec.MsgspecError as error:
            raise Refusal(Reason.MALFORMED, _in_words(error)) from error
        except RecursionError as error:
            raise Refusal(Reason.MALFORMED, "the value is JSON in too many layers.") from error
        return body

    def _check_once(self, raw: bytes) -> None:
        """Refuse an object that has a field twice, of which msgspec takes the last. Raises Refusal."""
        values = [bytes(value) for value in _fields(raw).values()]
        for name, quoted in zip(self._names, self._quoted, strict=True):
            if raw.count(quoted) - sum(value.count(quoted) for value in values) > 1:
                reason = Reason.AMBIGUOUS_DUE if name == self._due else Reason.MALFORMED
                raise Refusal(reason, f"`$.{name}` is there twice. Send it once.")


def number(raw: msgspec.Raw, path: str) -> Decimal | None:
    """Return the number at `path`, written as a number or as text, as some languages do; None if nothing is there.

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
        found = Decimal(text) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        found = None
    if found is None or not found.is_finite():
        raise Refusal(Reason.MALFORMED, f"`{path}` is {text[:64]}, and it must be a number.")
    return found


def _in_words(error: msgspec.MsgspecError) -> str:
    """Return a sentence for what msgspec finds wrong with a value."""
    said = str(error)
    mismatch = _EXPECTED.search(said)
    if mismatch is not None:
        expected, got, path = mismatch.groups()
        wanted = " or ".join(_TYPES.get(kind, kind) for kind in expected.split(" | "))
        what = "the value" if path is None else f"a part of `{path[:-5]}`" if path.endswith("[...]") else f"`{path}`"
        return f"{what} is {_TYPES.get(got, got)}, and it must be {wanted}."
    if "truncated" in said:
        return "the value is not valid JSON: it ends too early."
    place = _BYTE.search(said)
    return f"the value is not valid JSON{f': byte {place[1]} does not belong there' if place else ''}."


def content(raw: msgspec.Raw, path: str) -> bytes:
    """Return what is delivered of JSON: a string's UTF-8, anything else as compact JSON with the digits it came with.

    Raises Refusal if there is nothing at `path`, or a string that has no UTF-8.
    """
    text = bytes(raw)
    if not text:
        raise Refusal(Reason.MALFORMED, f"`{path}` is missing: what is to be delivered?")
    try:
        # Not through float: that would change digits.
        return _text(text).encode() if text.startswith(b'"') else msgspec.json.format(text, indent=-1)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refusal(Reason.MALFORMED, f"`{path}` cannot be delivered: it is not valid JSON.") from error
