"""Dead letters: what could not be accepted or delivered, with the reason (records.md#dead-letters)."""

from app.steps.step import OutgoingRecord
from punctual.contract import headers as names
from punctual.contract import native
from punctual.contract.native import Record
from punctual.contract.request import Headers, Reason
from tables import Entry, keys

#: What a dead letter says itself, and when its order was given: sent again, it is a new one.
_LEFT_OUT = names.DEAD_LETTER | {names.ASKED_AT}
#: Beside value and headers a record has a few dozen bytes of its own.
_SLACK = 1_024


def refused(topic: str, limit: int, record: Record, reason: Reason, sentence: str) -> OutgoingRecord:
    """Return the dead letter of a record that was never accepted; larger than `limit` bytes it loses its value."""
    source = f"{record.topic}-{record.partition}-{record.offset}"
    headers = [(names.legible(name), value) for name, value in record.headers if name not in _LEFT_OUT]
    return _letter(topic, limit, record.partition, record.key, record.value, headers, reason, sentence, source)


def rejected(
    topic: str, limit: int, partition: int, key: bytes, entry: Entry, reason: Reason, sentence: str
) -> OutgoingRecord:
    """Return the dead letter of an accepted message, with headers that let it be sent again as it is."""
    headers = native.again(entry, keys.due_of(key))
    return _letter(topic, limit, partition, entry.key, entry.value, headers, reason, sentence, entry.source)


def _letter(
    topic: str,
    limit: int,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    reason: Reason,
    sentence: str,
    source: str,
) -> OutgoingRecord:
    rest = len(key or b"") + sum(len(n.encode()) + len(v or b"") + 16 for n, v in headers) + len(sentence.encode())
    if rest + len(value or b"") + _SLACK > limit:
        left_out = f"The value of {len(value or b''):,} bytes is"
        value = None
        if rest + _SLACK > limit:
            left_out = "Key, value and headers are"
            key, headers = None, []
        sentence += f" ({left_out} left out here: the letter would be too large.)"
    headers = [
        *headers,
        (names.REASON, reason.value.encode()),
        (names.ERROR, sentence.encode()),
        (names.SOURCE, source.encode()),
    ]
    return OutgoingRecord(topic, partition, key, value, headers)
