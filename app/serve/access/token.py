"""Tokens of programs.

A token is 256 random bits, and its SHA-256 is stored. 2^256 tokens cannot be tried out at any speed, so the
slow hashes and the salt of passwords would only cost time.
"""

import hashlib
import re
import secrets
from typing import Final

#: Tools that look for secrets in code and logs find tokens by this prefix.
PREFIX: Final = "pgw_"
_BYTES: Final = 32
_FORM: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def new_token() -> str:
    """Return a new random token."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def digest_of(token: str) -> bytes:
    """Return the digest of a token, for storing."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token."""
    return _FORM.fullmatch(text) is not None
