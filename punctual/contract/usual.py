"""The usual request: it says where, when in digits, perhaps its id, and nothing else. Most are so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from punctual.contract import headers as names
from punctual.contract.request import ID_BYTES, Headers, Request
from punctual.contract.times import DIGITS_OF_SECONDS, MAX_DIGITS

if TYPE_CHECKING:
    from punctual.contract.native import Record

#: What is compared with each header's name.
_TO, _AT, _ID, _PREFIX = names.TO, names.AT, names.ID, names.PREFIX
#: More digits than seconds have, and no more than a time may have.
_LEAST, _MOST = DIGITS_OF_SECONDS.stop, MAX_DIGITS


def said(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str | None, str, int, Headers] | None:
    """Return the id, the topic and the due time in the headers of a usual request, and its user's own, or None."""
    to = at = id_ = None
    users: Headers = []
    for header in headers:
        name, value = header
        if name == _TO and to is None:
            to = value or b""
        elif name == _AT and at is None:
            at = value or b""
        elif name == _ID and id_ is None:
            id_ = value or b""
        elif name.startswith(_PREFIX) or not name.isascii():
            return None
        else:
            users.append(header)
    if not to or not at or not at.isdigit() or not _LEAST <= len(at) <= _MOST or id_ == b"":
        return None
    if id_ is not None and len(id_) > ID_BYTES:
        return None
    try:
        return None if id_ is None else id_.decode(), to.decode(), int(at), users
    except UnicodeDecodeError:
        return None


def usual(record: "Record") -> Request | None:
    """Return the request of a record if it is a usual one, as reading it in general would give it, or None.

    It takes half of what that takes.
    """
    found = said(record.headers)
    if found is None:
        return None
    id_, to, due_ms, users = found
    topic, key, value = record.topic, record.key, record.value
    source = f"{topic}-{record.partition}-{record.offset}"
    return Request("schedule", id_ or source, source, record.timestamp, topic, due_ms, to, key, value, users)
