"""The header fields of a request: text from a message can only become a value."""

import fnmatch
import re
from collections.abc import Iterable
from urllib.parse import quote

#: Fields of the connection, of the message's framing, or of the signature, which no sender may set.
NEVER = frozenset(
    {
        "connection",
        "content-length",
        "content-type",  # it is set once, from the message's type
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OURS = ("webhook-", "delay-")
#: Fields that a pattern with a wildcard does not include.
_SECRET = frozenset({"authorization", "cookie"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\x21-\x7e\x80-\U0010ffff](?:[\t\x20-\x7e\x80-\U0010ffff]*[\x21-\x7e\x80-\U0010ffff])?|")
_OCTETS = "application/octet-stream"
#: All visible ASCII but the percent sign.
_VISIBLE = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"

Headers = Iterable[tuple[str, bytes | None]]


def encoded(text: str) -> str:
    """Return text as a header's value: visible ASCII unchanged; `%` and all else percent-encoded as UTF-8."""
    return quote(text, safe=_VISIBLE, errors="replace")


def content_type(headers: Headers) -> str:
    """Return the content type of a message: the last header of that name, in any case, with a valid value."""
    values = (_value(value) for name, value in headers if name.lower() == "content-type")
    return next((value for value in reversed([*values]) if value), _OCTETS)


def travelling(headers: Headers, patterns: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the sender's headers that match the patterns, as far as HTTP can carry them.

    Values with control characters or invalid UTF-8 are left out, and so are the names in `NEVER`.
    """
    fields = []
    for name, raw in headers if patterns else ():
        lower, value = name.lower(), _value(raw)
        if value is not None and _NAME.fullmatch(name) and _is_free(lower) and _is_listed(lower, patterns):
            fields.append((name, value))
    return fields


def _is_free(lower: str) -> bool:
    return lower not in NEVER and not lower.startswith(_OURS)


def _is_listed(lower: str, patterns: tuple[str, ...]) -> bool:
    if lower in _SECRET:
        return lower in patterns
    return any(fnmatch.fnmatchcase(lower, pattern) for pattern in patterns)


def _value(raw: bytes | None) -> str | None:
    """Return a header's value as text, or None if a field cannot hold it."""
    try:
        text = (raw or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if _VALUE.fullmatch(text) else None
