"""Keys and values as bytes; bytes stay unchanged."""

from typing import Any

import msgspec

from punctual.client.errors import InvalidValueError

Key = bytes | str | None
"""The type of a key: bytes are sent unchanged, text as UTF-8, None as no key."""

_BYTES = (bytes, bytearray, memoryview)


def value_bytes(value: object) -> bytes | None:
    """Return the value of the record as bytes.

    Bytes stay unchanged, str becomes UTF-8, None Kafka's null; a Faust record is written by its own serializer, and all
    other values (dicts, lists, dataclasses, msgspec structs, numbers) are compact UTF-8 JSON. Raises InvalidValueError.
    """
    if value is None:
        return None
    if isinstance(value, _BYTES):
        return bytes(value)
    if isinstance(value, str):
        return _utf8("value", value)
    record = _record_bytes(value)
    return _json(value) if record is None else record


def key_bytes(key: Key) -> bytes | None:
    """Return the key of the record as bytes: bytes unchanged, str as UTF-8, None as null."""
    if key is None:
        return None
    if isinstance(key, _BYTES):
        return bytes(key)
    if isinstance(key, str):
        return _utf8("key", key)
    raise InvalidValueError(
        f"key={key!r} is {type(key).__name__}, not bytes, str or None: write key=str(...) or encode it."
    )


def _record_bytes(value: object) -> bytes | None:
    # Recognized by its method, not by its class, so that Faust is not imported for callers that do not use it.
    if not hasattr(value, "to_representation"):
        return None
    dumps = getattr(value, "dumps", None)
    written = dumps() if dumps is not None else None
    # A record class without its own serializer returns its dict, which Faust's apps write as JSON, as is done here.
    return written if isinstance(written, bytes) else None


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValueError(
            f"The value ({type(value).__name__}) cannot be written as JSON ({error}): encode it to bytes yourself."
        ) from error


def _plain(value: Any) -> object:
    if hasattr(value, "to_representation"):
        return value.to_representation()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"The {name} is not valid Unicode ({error.reason}): encode it to bytes yourself."
        ) from error
