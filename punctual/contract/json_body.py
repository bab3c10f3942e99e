"""JSON values of other dialects: read with the path of what is wrong, and content that keeps its digits."""

import json
from typing import Generic, TypeVar

import msgspec

from punctual.contract.native import Record
from punctual.contract.request import Reason, Refusal

T = TypeVar("T", bound=msgspec.Struct)

_text = msgspec.json.Decoder(str).decode


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
            raise Refusal(Reason.MALFORMED, f"the value is not the JSON object that it must be: {error}.") from error
        except RecursionError as error:
            raise Refusal(Reason.MALFORMED, "the value is JSON in too many layers.") from error
        return body

    def _check_once(self, raw: bytes) -> None:
        """Refuse an object that has a field twice, of which msgspec takes the last. Raises Refusal."""
        pairs: list[tuple[str, object]] = json.loads(raw, object_pairs_hook=list, parse_int=str, parse_float=str)
        given = [name for name, _ in pairs]
        for name in self._names:
            if given.count(name) > 1:
                reason = Reason.AMBIGUOUS_DUE if name == self._due else Reason.MALFORMED
                raise Refusal(reason, f"`$.{name}` is there twice. Send it once.")


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
        raise Refusal(Reason.MALFORMED, f"`{path}` cannot be delivered: {error}.") from error
