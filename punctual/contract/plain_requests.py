"""Plain requests: a destination, a due time in digits, optionally an id, and no other native header. Most are plain."""

from collections.abc import Sequence

from punctual.contract import headers as names
from punctual.contract.record import Record
from punctual.contract.request import ID_BYTES, Headers, Request
from punctual.contract.times import DIGITS_OF_SECONDS, MAX_DIGITS

#: Names that are compared with each header, as globals.
_TO, _AT, _ID, _PREFIX = names.TO, names.AT, names.ID, names.PREFIX
#: The minimum digits, more than seconds have, and the maximum digits of a time.
_LEAST, _MOST = DIGITS_OF_SECONDS.stop, MAX_DIGITS


def read_plain(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str | None, str, int, Headers] | None:
    """Return a plain request's ID (None: its source), destination, due time (epoch ms) and the user's own headers.

    Return None if these are not the headers of a plain request.
    """
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


def decode_plain(record: Record) -> Request | None:
    """Return the request in a record if it is plain, else None.

    The result is the same as the general decoder's (punctual/contract/native.py), in half of the CPU time.
    """
    fields = read_plain(record.headers)
    if fields is None:
        return None
    id_, to, due_ms, users = fields
    topic, key, value = record.topic, record.key, record.value
    source = f"{topic}-{record.partition}-{record.offset}"
    return Request("schedule", id_ or source, source, record.timestamp, topic, due_ms, to, key, value, users)
