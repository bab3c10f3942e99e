"""Ids as the contract has them: 1 to 256 bytes of UTF-8 (records.md#requests)."""

from punctual.client.errors import InvalidIdError
from punctual.contract.request import ID_BYTES


def id_bytes(message_id: str) -> bytes:
    """Return the id's bytes. Raises InvalidIdError when it is no text, empty, over 256 bytes or not UTF-8."""
    if not isinstance(message_id, str):
        raise InvalidIdError(f"id={message_id!r} is not a str: write id=str(...).")
    try:
        raw = message_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidIdError(
            f"id={message_id!r} is not valid Unicode ({error.reason}): give an id without lone surrogates."
        ) from error
    if not raw:
        raise InvalidIdError("id is empty: give 1 to 256 bytes, or leave id out to get an automatic one.")
    if len(raw) > ID_BYTES:
        raise InvalidIdError(f"id has {len(raw)} bytes, more than {ID_BYTES}: shorten it, or use a hash of it.")
    return raw
