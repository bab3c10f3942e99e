"""The header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): an Item of RFC 8941 that is a String."""

import re
from collections.abc import Sequence
from typing import Final

from app.gateway.keys.errors import KeyMalformed

HEADER: Final = "Idempotency-Key"
LONGEST: Final = 255

_STRING: Final = r'"((?:[ !#-\[\]-~]|\\["\\])*)"'
_BARE: Final = (
    r'(?:-?\d{1,15}(?:\.\d{1,3})?|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#$%&\'*+.^_`|~0-9A-Za-z:/-]*'
    r"|:[A-Za-z0-9+/=]*:|\?[01])"
)
#: Parameters mean nothing here, and an Item may have some (RFC 8941, 3.1.2).
_ITEM: Final = re.compile(rf" *{_STRING}(?:; *[a-z*][a-z0-9_.*-]*(?:={_BARE})?)* *", re.ASCII)
_ESCAPED: Final = re.compile(r"\\(.)")


def key_of(lines: Sequence[str]) -> str | None:
    """Return the key in the header's lines, None if there is no line.

    Raises KeyMalformed with a sentence, which does not show the key.
    """
    if not lines:
        return None
    if len(lines) > 1:
        raise KeyMalformed(f"there are {len(lines)} {HEADER} headers; send one")
    found = _ITEM.fullmatch(lines[0])
    if found is None:
        raise KeyMalformed(f'{HEADER} must be a string of printable ASCII in double quotes: {HEADER}: "8e03978e-40d5"')
    key = _ESCAPED.sub(r"\1", found[1])
    if not 1 <= len(key) <= LONGEST:
        raise KeyMalformed(f"{HEADER} has {len(key)} characters. It must have 1 to {LONGEST}")
    return key
