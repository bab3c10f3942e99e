"""The fields of a JSON object, up to a maximum, because each costs far more than its few bytes."""

from typing import Final

import msgspec

#: The same as the maximum headers of a Kafka record (punctual/batches.py).
MAX_FIELDS: Final = 1_000
#: The size up to which JSON cannot exceed the maximum: each field has two quotes, a colon, a value and a comma.
SHORT: Final = 5 * MAX_FIELDS


class TooManyFieldsError(Exception):
    """An object has too many fields; the message completes "it is"."""

    def __init__(self) -> None:
        """Name the maximum."""
        super().__init__(f"an object of more than {MAX_FIELDS:,} fields, which is the maximum")


class _FieldName(str):
    """A field's name: msgspec passes names of an unknown type to its hook, one after another."""

    __slots__ = ()


def fields(raw: bytes | msgspec.Raw) -> tuple[dict[str, msgspec.Raw], set[str]]:
    """Return the fields of a JSON object, with the last value of each, and the repeated names.

    Parsing ends at the first field beyond MAX_FIELDS. Raises TooManyFieldsError, and msgspec's errors.
    """
    count, names = 0, set[str]()
    repeated = set[str]()

    def take(_: type, name: str) -> _FieldName:
        nonlocal count
        count += 1
        if count > MAX_FIELDS:
            raise TooManyFieldsError
        (repeated if name in names else names).add(name)
        return _FieldName(name)

    result: dict[str, msgspec.Raw] = {}
    result |= msgspec.json.decode(raw, type=dict[_FieldName, msgspec.Raw], dec_hook=take)
    return result, repeated
