"""Dead letters: messages that were not accepted or delivered, with the reason (records.md#dead-letters)."""

from app.engine.steps.step import OutgoingRecord
from punctual.contract import headers as names
from punctual.contract.dialects.dialects import OF_ROWS, Dialect
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal
from tables import Entry, keys

#: Maximum bytes of a record in addition to its key, value and headers.
_SLACK = 1_024
#: Part of the error in a dead letter that was too large: it lacks its value, or key, value and headers.
LEFT_OUT = "left out, because the dead letter would be too large"


def refused(dialect: Dialect, topic: str, limit: int, record: Record, reason: Reason, sentence: str) -> OutgoingRecord:
    """Return the dead letter of a record that was never accepted; its value is left out if it exceeds `limit` bytes."""
    source = f"{record.topic}-{record.partition}-{record.offset}"
    letter = OutgoingRecord(topic, record.partition, record.key, record.value, dialect.kept(record))
    return _signed(dialect, letter, limit, reason, sentence, source)


def rejected(
    topic: str, limit: int, partition: int, key: bytes, entry: Entry, reason: Reason, sentence: str
) -> OutgoingRecord:
    """Return the dead letter of an accepted message, with headers that let it be sent again as it is."""
    headers = OF_ROWS.again(entry, keys.due_of(key))
    letter = OutgoingRecord(topic, partition, entry.key, entry.value, headers)
    return _signed(OF_ROWS, letter, limit, reason, sentence, entry.source)


def unsent(
    topic: str,
    limit: int,
    partition: int,
    record: tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]],
    reason: Reason,
    sentence: str,
) -> OutgoingRecord:
    """Return the dead letter of a request that never reached its topic, so it has no source."""
    letter = _signed(OF_ROWS, OutgoingRecord(topic, partition, *record), limit, reason, sentence, "")
    return letter._replace(headers=[header for header in letter.headers if header[0] != names.SOURCE])


def signed(letter: OutgoingRecord, limit: int, refusal: Refusal, source: str) -> OutgoingRecord:
    """Return a native dead letter with the reason in its headers; its value is left out if it exceeds `limit` bytes."""
    return _signed(OF_ROWS, letter, limit, refusal.reason, refusal.sentence, source)


def _signed(
    dialect: Dialect, letter: OutgoingRecord, limit: int, reason: Reason, sentence: str, source: str
) -> OutgoingRecord:
    """Return a dead letter with the reason in its headers, without the parts that make it exceed `limit` bytes."""
    topic, partition, key, value, headers = letter
    rest = len(key or b"") + sum(len(n.encode()) + len(v or b"") + 16 for n, v in headers) + len(sentence.encode())
    if rest + len(value or b"") + _SLACK > limit:
        left_out = f"The value of {len(value or b''):,} bytes is"
        value = None
        if rest + _SLACK > limit:
            left_out = "Key, value and headers are"
            key, headers = None, []
        sentence += f" ({left_out} {LEFT_OUT}.)"
    return OutgoingRecord(topic, partition, key, value, [*headers, *dialect.failure(reason, sentence, source)])
