"""Messages of other systems' clients, as their own documentation has them, and what tells whether one is taken well."""

import contextlib
from dataclasses import replace
from typing import NamedTuple

from app.engine.ingest.pending_rows import row_of
from punctual.contract import native, request
from punctual.contract.dialects.dialects import DIALECTS, dialect_of
from punctual.contract.request import Refusal, Request
from tables.entry import decode as decode_row
from tables.entry import encode as encode_row
from tests.punctual.contract.records import NOW, FakeRecord

DUE = NOW + 60_000
#: JSON that is to be delivered, and the bytes that are.
CONTENTS = [
    ('""', b""),
    ('"d\\u00e9j\\u00e0 \\ud83d\\ude00"', "déjà \U0001f600".encode()),
    ("null", b"null"),
    ("1.10000000000000000000000000000000001", b"1.10000000000000000000000000000000001"),
    (
        '{"a" : [1, 2e400 , 12345678901234567890123 ],\n"b":"x y"}',
        b'{"a":[1,2e400,12345678901234567890123],"b":"x y"}',
    ),
]


def record(*headers: tuple[str, bytes | None], key: bytes | None = b"k", value: bytes | None = b"v") -> FakeRecord:
    """Return a record on some input."""
    return FakeRecord(list(headers), key, value, topic="foreign")


COUNTDOWN = record(
    ("CALLER_SERVICE", b"S"),
    value=b'{\n    "topic": "T",\n    "message": "<message body>",\n    "countdown": 120\n}',
)
AIRTEL = record(
    value=b'{\n"topic": "topic_name",\n"key": "key",\n"value": {},\n"headers": {},\n"postTime": 12312031310,\n'
    b'"failurePostCallbackUrl": ""\n}',
)
ETF1 = replace(
    record(
        ("scheduler-epoch", b"1893456000"),
        ("scheduler-target-topic", b"online-videos"),
        ("scheduler-target-key", b"vid1"),
        ("customer-header", b"dummy"),
        key=b"vid1-online",
        value=b'"video 1"',
    ),
    timestamp=1_607_918_336_000,
    topic="schedules",
)
KARAFKA = record(
    ("schedule_schema_version", b"1.0.0"),
    ("schedule_target_epoch", b"1893456000"),
    ("schedule_source_type", b"schedule"),
    ("schedule_target_topic", b"orders"),
    ("schedule_target_key", b"order-17"),
    ("trace", b"1"),
    key=b"orders-7d5a0ff5",
)
NATS = record(
    ("Nats-Schedule", b"@at 2009-11-10T23:00:00Z"),
    ("Nats-Schedule-TTL", b"5m"),
    ("Nats-Schedule-Target", b"$SCHED.trigger.update_orders"),
    key=b"$SCHED.update_orders",
    value=b"body",
)
SPRING = record(
    ("retry_topic-attempts", b"\x02"),
    ("retry_topic-original-timestamp", b"\x01\x9b\x76\xda\xa8\x00"),
    ("retry_topic-backoff-timestamp", b"\x01\x9b\x76\xdb\x92\x60"),
    ("kafka_original-topic", b"orders"),
)
DELIVER_AFTER = record(("deliverAfter", b"%d" % DUE), ("user", None))
PUBLISH_AFTER = record(("publish-after-ts", b"%d" % DUE), ("user", b"\xff"))
#: A valid request of each dialect but the native one.
EXAMPLES = {
    "countdown": COUNTDOWN,
    "airtel": AIRTEL,
    "etf1": ETF1,
    "karafka": KARAFKA,
    "nats": NATS,
    "spring": SPRING,
    "deliver-after": DELIVER_AFTER,
    "publish-after": PUBLISH_AFTER,
}
#: The dialect in DELAY_INPUTS of an input that has it.
SETTINGS = {name: f"{name}:orders" if "to" in DIALECTS[name].options else name for name in EXAMPLES}


def decode(setting: str, asked: FakeRecord) -> Request:
    """Decode a record on an input that is set like this."""
    return dialect_of(setting).decode(asked)


def but(asked: FakeRecord, **changes: bytes | None) -> FakeRecord:
    """Return a record with other values of its headers, named with underscores for dashes; None leaves one out."""
    left = {name.replace("_", "-"): value for name, value in changes.items()}
    headers = [
        (name, left.pop(key) if (key := name.replace("_", "-")) in left else value) for name, value in asked.headers
    ]
    return replace(asked, headers=[pair for pair in headers if pair[1] is not None])


def beside(asked: FakeRecord, *more: tuple[str, bytes], **native_headers: bytes) -> FakeRecord:
    """Return a record with more headers after its own, native ones named with underscores for dashes."""
    ours = [(name.replace("_", "-"), value) for name, value in native_headers.items()]
    return replace(asked, headers=[*asked.headers, *more, *ours])


class Outcome(NamedTuple):
    asked: Request | None
    refusal: Refusal | None


def outcome(setting: str, asked: FakeRecord) -> Outcome:
    """Decode a record: it is a request that can be forwarded, held, delivered and asked again, or a refusal."""
    try:
        found = decode(setting, asked)
    except Refusal as refusal:
        return Outcome(None, _legible(refusal))
    assert found.source == f"{asked.topic}-{asked.partition}-{asked.offset}"
    assert request.decode(request.encode(found)) == found
    row = row_of(found)
    assert decode_row(encode_row(row)) == row
    if found.op == "schedule" and found.stamp_ms >= 0:  # the worker refuses records without a timestamp
        again = FakeRecord(native.again(row, min(found.due_ms, 10**14)), found.key, found.value)
        assert native.decode(again).headers == found.headers
        assert all(isinstance(name.encode(), bytes) for name, _ in native.delivery(row, found.due_ms))
    return Outcome(found, None)


def _legible(refusal: Refusal) -> Refusal:
    assert refusal.sentence.endswith((".", "?"))
    assert len(refusal.sentence.encode()) < 2_000
    return refusal


def refusal_of(setting: str, asked: FakeRecord) -> Refusal:
    """Return how a record is refused; fails if it is not."""
    with contextlib.suppress(Refusal):
        found = decode(setting, asked)
        msg = f"it is not refused: {found}"
        raise AssertionError(msg)
    refusal = outcome(setting, asked).refusal
    assert refusal is not None
    return refusal
