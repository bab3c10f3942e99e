"""The dialect of the `scheduler-*` headers: the record's key is the id, and a null value cancels.

Deliveries have all headers of the record, followed by scheduler-timestamp, scheduler-key and scheduler-topic.
"""

from typing import Final

from punctual.contract.dialects import native_headers
from punctual.contract.dialects.fields import parsed, text_of
from punctual.contract.dialects.native_headers import Own
from punctual.contract.record import Record
from punctual.contract.request import Headers, Reason, Refusal, Request
from punctual.contract.times import parse_seconds
from punctual.contract.words import Words

EPOCH: Final = "scheduler-epoch"
TARGET_TOPIC: Final = "scheduler-target-topic"
TARGET_KEY: Final = "scheduler-target-key"
TIMESTAMP: Final = "scheduler-timestamp"
KEY: Final = "scheduler-key"
TOPIC: Final = "scheduler-topic"

WORDS: Final = Words(id="the record's key", to=TARGET_TOPIC, due=EPOCH)


def decode(record: Record, grace: int | None = None) -> Request:
    """Return the request in a record. Raises Refusal.

    A message that was due more than `grace` ms before its record is refused as too late; None delivers it.
    """
    headers, users = native_headers.read(record)
    own = Own(id=native_headers.key_id(record))
    if record.value is None:
        own.cancels = "the value is null"
        return native_headers.request(record, WORDS, headers, own, None, None, [])
    own.to, own.due_ms = _text(users, TARGET_TOPIC), _due_ms(users)
    after: Headers = [
        (TIMESTAMP, b"%d" % (record.timestamp // 1000)),
        (KEY, record.key),
        (TOPIC, record.topic.encode()),
    ]
    request = native_headers.request(
        record, WORDS, headers, own, _first(users, TARGET_KEY), record.value, [*users, *after]
    )
    if grace is not None and request.op == "schedule" and request.due_ms < record.timestamp - grace:
        late_ms = record.timestamp - request.due_ms
        sentence = (
            f"it was due {late_ms} ms before its record was written. DELAY_INPUTS allows {grace} ms on this input."
        )
        raise Refusal(Reason.TOO_LATE, f"{sentence} Send it earlier, or raise the limit.")
    return request


def _first(users: Headers, name: str) -> bytes | None:
    """Return the value of the first header with a name; later ones are ignored."""
    return next((value for one, value in users if one == name), None)


def _text(users: Headers, name: str) -> str | None:
    return text_of(name, _first(users, name)) or None


def _due_ms(users: Headers) -> int | None:
    text = _text(users, EPOCH)
    return None if text is None else parsed(EPOCH, text, parse_seconds)
