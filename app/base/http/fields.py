"""The header fields of a request: nothing that comes from a message can be more than a value."""

import fnmatch
import re
from collections.abc import Iterable
from urllib.parse import quote

#: What belongs to a connection, to the message's own form, or to whoever signs: no sender says it.
NEVER = frozenset(
    {
        "connection",
        "content-length",
        "content-type",  # it is said once, by what it is
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
#: What a pattern with a wildcard does not mean.
_SECRET = frozenset({"authorization", "cookie"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\x21-\x7e\x80-\U0010ffff](?:[\t\x20-\x7e\x80-\U0010ffff]*[\x21-\x7e\x80-\U0010ffff])?|")
_OCTETS = "application/octet-stream"
#: All visible ASCII but the percent sign.
_VISIBLE = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"

Headers = Iterable[tuple[str, bytes | None]]


def encoded(text: str) -> str:
    """Return a text as a header's value: visible ASCII as it is, all else, and `%`, percent-encoded as UTF-8."""
    return quote(text, safe=_VISIBLE, errors="replace")


def content_type(headers: Headers) -> str:
    """Return what a message says its value is, by the last header of that name in any case that can be one."""
    said = (_value(value) for name, value in headers if name.lower() == "content-type")
    return next((value for value in reversed([*said]) if value), _OCTETS)


def travelling(headers: Headers, patterns: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return those of a sender's headers that patterns let travel, as far as HTTP can carry them.

    What no field can hold, a control character or what is not UTF-8, stays behind; so does what `NEVER` has.
    """
    found = []
    for name, raw in headers if patterns else ():
        lower, value = name.lower(), _value(raw)
        if value is not None and _NAME.fullmatch(name) and _is_free(lower) and _is_listed(lower, patterns):
            found.append((name, value))
    return found


def _is_free(lower: str) -> bool:
    return lower not in NEVER and not lower.startswith(_OURS)


def _is_listed(lower: str, patterns: tuple[str, ...]) -> bool:
    if lower in _SECRET:
        return lower in patterns
    return any(fnmatch.fnmatchcase(lower, pattern) for pattern in patterns)


def _value(raw: bytes | None) -> str | None:
    """Return a header's value if a field can hold it."""
    try:
        text = (raw or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if _VALUE.fullmatch(text) else None
