"""Shows bytes as JSON, as text, or in hexadecimal."""

import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from punctual.encryption import ALGORITHM_HEADER, KEY_ID_HEADER

_ROW: Final = 16
#: More hexadecimal than this is of no use on a page; the JSON twin has the whole value.
_HEX_BYTES: Final = 4_096
_PRINTABLE_FROM: Final = 32
#: Control characters except for tabs and line breaks.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
#: JSON that needs more blanks and line breaks is shown as text: with hundreds of layers, a megabyte becomes a gigabyte.
_BLANKS: Final = 256 << 10
_INDENT: Final = 2
#: Brackets and commas begin a new line; strings are matched whole, because brackets inside them do not.
_MARKS: Final = re.compile(rb'[{}\[\],]|"[^"\\]*+(?:\\.[^"\\]*+)*+"')
#: Bytes as the API shows them: text, or an object with `base64`.
ApiBytes = str | Mapping[str, str] | None
_DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("key", "value", "to_cluster", "asked_ms", "next_try_ms", "occurrence", "paused_since_ms")),
    **dict.fromkeys(("attempts", "value_bytes"), 0),
    "headers": [],
    "next_ms": [],
    "paused": False,
    "masked": False,
    "zone": "UTC",
}


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes as a page shows them: the view, the possible views, and the text."""

    view: str
    views: list[str]
    text: str


def row_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pending message of the API as templates read it: with underscores in names, and all fields there."""
    return {**_DEFAULTS} | {name.replace("-", "_"): value for name, value in message.items()}


def raw(field: ApiBytes) -> bytes | None:
    """Return the bytes of a field of the API: text, or an object with `base64`; None for null."""
    if field is None or isinstance(field, str):
        return None if field is None else field.encode()
    return b64decode(field["base64"])


def of(row: Mapping[str, Any], view: str) -> Payload | None:
    """Return the payload of a message or dead letter in a view, or in the first possible view; None for null.

    If its headers say that the value is encrypted, the text names the key.
    """
    content = raw(row.get("value"))
    if content is None:
        return None
    header_texts = {name: plain(value) for name, value in row.get("headers") or ()}
    if ALGORITHM_HEADER in header_texts and KEY_ID_HEADER in header_texts:
        key_id, algorithm = header_texts[KEY_ID_HEADER], header_texts[ALGORITHM_HEADER]
        return Payload(view="text", views=["text"], text=f"encrypted with the key {key_id} ({algorithm})")
    shown = {"json": _json(content), "text": _text(content), "hex": _hex(content)}
    texts = {name: text for name, text in shown.items() if text is not None}
    view = view if view in texts else next(iter(texts))
    return Payload(view=view, views=list(texts), text=texts[view])


def plain(field: ApiBytes) -> str:
    """Return bytes in one line: as text if possible, else hexadecimal after 0x."""
    content = raw(field)
    if content is None:
        return ""
    text = _text(content)
    return text if text is not None else f"0x{content.hex()}"


def _json(content: bytes) -> str | None:
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
        content.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if content.lstrip()[:1] not in (b"{", b"[") or not _has_room(content):
        return None
    return msgspec.json.format(content, indent=_INDENT).decode()


def _has_room(content: bytes) -> bool:
    """Return whether JSON needs few enough blanks when indented."""
    layers = blanks = 0
    for mark in _MARKS.finditer(content):
        first = content[mark.start()]
        layers += (first in b"{[") - (first in b"}]")
        blanks += _INDENT * layers + 1
        if blanks > _BLANKS:
            return False
    return True


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def _hex(content: bytes) -> str:
    """Return a hex dump of the first bytes, with offsets and printable characters, and the number of further bytes."""
    rows = []
    for start in range(0, min(len(content), _HEX_BYTES), _ROW):
        row = content[start : start + _ROW]
        characters = "".join(chr(byte) if _PRINTABLE_FROM <= byte < 127 else "." for byte in row)  # noqa: PLR2004 - DEL
        rows.append(f"{start:06x}  {row.hex(' '):<47}  {characters}")
    if len(content) > _HEX_BYTES:
        rows.append(f"… {len(content) - _HEX_BYTES:,} more bytes")
    return "\n".join(rows)
