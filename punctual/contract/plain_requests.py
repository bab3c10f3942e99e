"""Plain requests: a destination, a due time in digits, perhaps an ID, and no other header of ours. Most are plain."""

from collections.abc import Sequence

from punctual.contract import headers as names
from punctual.contract.record import Record
from punctual.contract.request import ID_BYTES, Headers, Request
from punctual.contract.times import DIGITS_OF_SECONDS, MAX_DIGITS

#: What is compared with each header's name.
_TO, _AT, _ID, _PREFIX = names.TO, names.AT, names.ID, names.PREFIX
#: More digits than seconds have, and no more than a time may have.
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

    The result equals that of the general decoder (punctual/contract/native.py), for half of the CPU time.
    """
    fields = read_plain(record.headers)
    if fields is None:
        return None
    id_, to, due_ms, users = fields
    topic, key, value = record.topic, record.key, record.value
    source = f"{topic}-{record.partition}-{record.offset}"
    return Request("schedule", id_ or source, source, record.timestamp, topic, due_ms, to, key, value, users)
