"""The usual request: it says where, when in digits, perhaps its id, and nothing else. Most are so."""

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


def usual(record: "Record") -> Request | None:
    """Return the request of a record if it is a usual one, as reading it in general would give it, or None.

    It takes half of what that takes.
    """
    to = at = id_ = None
    users: Headers = []
    for header in record.headers:
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
    topic, key, value = record.topic, record.key, record.value
    source = f"{topic}-{record.partition}-{record.offset}"
    try:
        message_id = source if id_ is None else id_.decode()
        return Request("schedule", message_id, source, record.timestamp, topic, int(at), to.decode(), key, value, users)
    except UnicodeDecodeError:
        return None
