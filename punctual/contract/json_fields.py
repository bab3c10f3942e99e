"""The fields of a JSON object, as far as an object may have them: each costs far more than its few bytes."""

from typing import Final

import msgspec

#: As many as a Kafka record may have headers (punctual/batches.py).
MAX_FIELDS: Final = 1_000
#: JSON of no more bytes has no object of more fields: each has two quotes, a colon, a value and a comma.
SHORT: Final = 5 * MAX_FIELDS


class TooManyFieldsError(Exception):
    """An object has more fields than are read: what follows "it is"."""

    def __init__(self) -> None:
        """Say how many there may be."""
        super().__init__(f"an object of more than {MAX_FIELDS:,} fields, which is the maximum")


class _FieldName(str):
    """A field's name: msgspec hands names of a type that it does not know to its hook, one after another."""

    __slots__ = ()


def fields(raw: bytes | msgspec.Raw) -> tuple[dict[str, msgspec.Raw], set[str]]:
    """Return the fields of a JSON object, the last value of each, and the names that are there more than once.

    Reading ends at the first field beyond MAX_FIELDS. Raises TooManyFieldsError, and what msgspec raises.
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

    found: dict[str, msgspec.Raw] = {}
    found |= msgspec.json.decode(raw, type=dict[_FieldName, msgspec.Raw], dec_hook=take)
    return found, repeated
