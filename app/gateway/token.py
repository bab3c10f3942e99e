"""Tokens for callers of the gateway, and the command that makes one: `punctual token NAME`.

A token is 256 random bits, and its SHA-256 is stored. 2^256 tokens cannot be tried out at any speed, so the
slow hashes and the salt of passwords would only cost time.
"""

import argparse
import hashlib
import hmac
import re
import secrets
import sys
from typing import Final

#: Tools that look for secrets in code and logs find tokens by this prefix.
PREFIX: Final = "pgw_"
_BYTES: Final = 32
_FORM: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def new_token() -> str:
    """Return a new random token."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def digest_of(token: str) -> bytes:
    """Return the digest of a token, for storing."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token."""
    return _FORM.fullmatch(text) is not None


def same(one: bytes, other: bytes) -> bool:
    """Return whether two digests are the same, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one, other)


def main(arguments: list[str] | None = None) -> None:
    """Write a new token to stdout, and lines for DELAY_GATEWAY_TOKENS_FILE to stderr."""
    parser = argparse.ArgumentParser(
        prog="punctual token",
        description="Make a token for the gateway. The token is printed to stdout and not stored; the lines for "
        "DELAY_GATEWAY_TOKENS_FILE are printed to stderr.",
    )
    parser.add_argument("name", help="name of the user of the token: letters, digits, - and _")
    given = parser.parse_args(arguments)
    if not NAME.fullmatch(given.name):
        parser.error("use 1 to 64 letters, digits, hyphens or underscores, the first a letter or a digit")
    token = new_token()
    sys.stderr.write(
        f"[{given.name}]\n"
        'destinations = ["*"]  # better: the topics that it may deliver to\n'
        f'tokens = [{{ sha256 = "{digest_of(token).hex()}" }}]\n'
    )
    sys.stdout.write(token + "\n")


if __name__ == "__main__":
    main()
