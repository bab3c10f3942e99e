"""Signatures of Standard Webhooks, and the file of signing secrets.

A signature is HMAC-SHA256 over id, time and body (standardwebhooks.com, spec version 1).
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from app.base.http.allow_list import Pattern
from app.base.http.target import UrlTarget
from app.base.watched_file import Line, WatchedFile

_PREFIX = "whsec_"
#: The minimum and maximum bytes of a secret in the specification.
_SHORTEST, _LONGEST = 24, 64


def secret(text: str) -> bytes:
    """Return the bytes of a `whsec_…` secret.

    Raises ValueError, which does not contain the secret.
    """
    if not text.startswith(_PREFIX):
        raise ValueError(f"a secret must begin with {_PREFIX}, followed by base64")
    try:
        raw = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the text after {_PREFIX} is not base64") from error
    if not _SHORTEST <= len(raw) <= _LONGEST:
        raise ValueError(f"a secret has {len(raw)} bytes. It must have {_SHORTEST} to {_LONGEST}")
    return raw


def signature(secrets: Iterable[bytes], id_: str, timestamp_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature per secret, so that secrets can be rotated."""
    signed = b"%s.%d." % (id_.encode(), timestamp_s) + body
    digests = (hmac.digest(one, signed, hashlib.sha256) for one in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def webhook_id(*parts: str, kind: str = "msg") -> str:
    """Return a request's id, made from its `parts`: senders cannot choose it, it has no dot, and each try has the same.

    It begins with the `kind` of request, which is signed with it.
    """
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return f"{kind}_{base64.urlsafe_b64encode(digest[:24]).decode()}"


_ANY = "*"

_Line = tuple[Pattern | None, tuple[bytes, ...]]


class SecretsFile:
    """Lines of a pattern and its secrets, separated by spaces; a URL gets the secrets of the first line that admits it.

    Patterns are compared part by part as in allow lists, because a secret must not sign requests to other hosts.
    If the file cannot be read any more, its last content stays in use.
    """

    def __init__(self, path: str) -> None:
        """Read the file at `path`; an empty path is no file.

        Raises ValueError, which names the problem and the line, without a secret.
        """
        self._file = WatchedFile("DELAY_HTTP_SECRETS_FILE", path, _lines, "lines are used")

    def of(self, target: UrlTarget, now_s: float) -> tuple[bytes, ...]:
        """Return the secrets of the first pattern that admits a URL, or none; reads a changed file within a second.

        `now_s` is the time of the event loop.
        """
        lines = self._file.content(now_s)
        return next((secrets for pattern, secrets in lines if pattern is None or pattern.admits(target)), ())


def _lines(lines: list[Line]) -> list[_Line]:
    return [_line(number, line) for number, line in lines]


def _line(number: int, line: str) -> _Line:
    text, *secrets = line.split()
    if text != _ANY and not text.startswith(("https://", "http://")):
        raise ValueError(f"line {number} must begin with a pattern of https:// or http:// addresses")
    if not secrets:
        raise ValueError(f"line {number} has no secret. Write a pattern and one or more secrets")
    try:
        return None if text == _ANY else Pattern.of(text), tuple(map(secret, secrets))
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
