"""Other systems, by dialect: their requests, and the deliveries that they would make from a record on their topic."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from punctual.contract.request import Headers
from tests.harness.kafka import Record

COUNTDOWN_MS = 1_250
BACKOFF = "retry_topic-backoff-timestamp"
_STOPPED: Headers = [("schedule_schema_version", b"1.0.0"), ("schedule_source_type", b"cancel")]
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_STRIPPED = ("nats-schedule", "nats-expected-", "nats-msg-id")


class Asked(NamedTuple):
    """A producer's record."""

    headers: Headers
    key: bytes | None
    value: bytes | None


class Delivery(NamedTuple):
    """A consumer's record at the destination, without the headers that Punctual adds."""

    due_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class System(NamedTuple):
    """A system whose requests an input takes."""

    #: The input's dialect in DELAY_INPUTS; * stands for the destination.
    setting: str
    #: Asks, by number, destination and due time (a whole second).
    ask: Callable[[int, str, int], Asked]
    #: The delivery of a record; a record that cancels has none.
    delivery: Callable[[Record], Delivery]
    #: Cancels the message with a number.
    cancel: Callable[[int], Asked]


def value(number: int) -> bytes:
    """Return a value, which is no text."""
    return b"value \xff %d" % number


def key(number: int) -> bytes:
    """Return the key of a delivery."""
    return b"key-%d" % number


def named(prefix: str, number: int) -> bytes:
    """Return an id."""
    return f"{prefix}-{number}".encode()


def native_cancel(number: int) -> Asked:
    """Cancel by native headers, where a system has no cancel of its own."""
    return Asked([("delay-op", b"cancel"), ("delay-id", named("far", number))], None, None)


def countdown(number: int, to: str, _: int) -> Asked:
    """Return a request to the service in front of a Redis sorted set: always `COUNTDOWN_MS` ahead."""
    body = {"topic": to, "message": {"n": number}, "countdown": COUNTDOWN_MS / 1000}
    return Asked([("CALLER_SERVICE", b"S")], key(number), msgspec.json.encode(body))


def _counted_down(asked: Record) -> Delivery:
    body = _fields(asked.value or b"")
    due_ms = asked.timestamp_ms + round(float(bytes(body["countdown"])) * 1000)
    return Delivery(due_ms, asked.key, _content(body["message"]), asked.headers)


def airtel(number: int, to: str, due_ms: int) -> Asked:
    """Return a request to the delay service with a document store."""
    content = {
        "topic": to,
        "key": f"key-{number}",
        "value": f"text {number}",
        "headers": {"b": "é", "a": "", "c": None},
    }
    written = (due_ms, str(due_ms), due_ms - 0.25)[number % 3]  # as Java, JavaScript and PHP have it
    body = {**content, "postTime": written, "failurePostCallbackUrl": ""}
    return Asked([("own", b"1")], None, msgspec.json.encode(body))


def _posted(asked: Record) -> Delivery:
    body = _fields(asked.value or b"")
    to = msgspec.json.decode(body.get("key", b"null"), type=str | None)
    headers = msgspec.json.decode(body["headers"], type=dict[str, str | None] | None) or {}
    left: Headers = [(name, None if text is None else text.encode()) for name, text in headers.items()]
    due_ms = math.ceil(float(bytes(body["postTime"]).strip(b'"')))
    return Delivery(due_ms, None if to is None else to.encode(), _content(body["value"]), left)


def etf1(number: int, to: str, due_ms: int) -> Asked:
    """Return a request with `scheduler-*` headers."""
    headers: Headers = [
        ("scheduler-epoch", b"%d" % (due_ms // 1_000)),
        ("scheduler-target-topic", to.encode()),
        ("scheduler-target-key", key(number)),
        ("customer-header", b"dummy"),
    ]
    return Asked(headers, named("etf1", number), value(number))


def _scheduled(asked: Record) -> Delivery:
    more: Headers = [
        ("scheduler-timestamp", b"%d" % (asked.timestamp_ms // 1_000)),
        ("scheduler-key", asked.key),
        ("scheduler-topic", asked.topic.encode()),
    ]
    said = dict(reversed(asked.headers))
    due_ms = int(said["scheduler-epoch"] or b"") * 1_000
    return Delivery(due_ms, said.get("scheduler-target-key"), asked.value, [*asked.headers, *more])


def karafka(number: int, to: str, due_ms: int) -> Asked:
    """Return a request with `schedule_*` headers."""
    headers: Headers = [
        ("schedule_schema_version", b"1.0.0"),
        ("schedule_source_type", b"schedule"),
        ("schedule_target_epoch", b"%d" % (due_ms // 1_000)),
        ("schedule_target_topic", to.encode()),
        ("schedule_target_key", key(number)),
        ("schedule_target_partition", b"1"),
    ]
    return Asked(headers, named("karafka", number), value(number))


def _dispatched(asked: Record) -> Delivery:
    more: Headers = [
        ("schedule_source_topic", asked.topic.encode()),
        ("schedule_source_partition", b"%d" % asked.partition),
        ("schedule_source_offset", b"%d" % asked.offset),
        ("schedule_source_key", asked.key),
    ]
    said = dict(asked.headers)
    due_ms = int(said["schedule_target_epoch"] or b"") * 1_000
    return Delivery(due_ms, said.get("schedule_target_key"), asked.value, [*asked.headers, *more])


def nats(number: int, to: str, due_ms: int) -> Asked:
    """Return a request with `Nats-Schedule*` headers."""
    at = datetime.fromtimestamp(due_ms // 1_000, UTC).strftime("@at %Y-%m-%dT%H:%M:%SZ")
    headers: Headers = [
        ("Nats-Schedule", at.encode()),
        ("Nats-Schedule-Target", to.encode()),
        ("Nats-Schedule-TTL", b"5m"),
        ("Nats-Msg-Id", b"1"),
        ("Nats-Expected-Stream", b"ORDERS"),
        ("trace", b"1"),
    ]
    return Asked(headers, named("nats", number), value(number))


def _triggered(asked: Record) -> Delivery:
    left = [header for header in asked.headers if not header[0].lower().startswith(_STRIPPED)]
    more: Headers = [("Nats-Scheduler", asked.key), ("Nats-Schedule-Next", b"purge")]
    said = dict(asked.headers)
    if "Nats-Schedule-TTL" in said:
        more.append(("Nats-TTL", said["Nats-Schedule-TTL"]))
    at = datetime.fromisoformat(asked.header("Nats-Schedule").removeprefix("@at "))
    return Delivery(round(at.timestamp() * 1_000), asked.key, asked.value, [*left, *more])


def _header(name: str, said: Callable[[int], bytes]) -> Callable[[int, str, int], Asked]:
    def ask(number: int, _: str, due_ms: int) -> Asked:
        return Asked([("user", b"\xff"), (name, said(due_ms)), ("user", None)], key(number), value(number))

    return ask


def _unchanged(name: str, due_ms: Callable[[bytes], int]) -> Callable[[Record], Delivery]:
    def delivery(asked: Record) -> Delivery:
        return Delivery(due_ms(dict(asked.headers)[name] or b""), asked.key, asked.value, asked.headers)

    return delivery


def _digits(due_ms: int) -> bytes:
    return b"%d" % due_ms


def _content(raw: msgspec.Raw) -> bytes:
    """Return the delivered value for compact JSON."""
    text = bytes(raw)
    return msgspec.json.decode(text, type=str).encode() if text.startswith(b'"') else text


SYSTEMS = {
    "countdown": System("countdown", countdown, _counted_down, native_cancel),
    "airtel": System("airtel", airtel, _posted, native_cancel),
    "etf1": System("etf1", etf1, _scheduled, lambda number: Asked([], named("etf1", number), None)),
    "karafka": System("karafka", karafka, _dispatched, lambda number: Asked(_STOPPED, named("karafka", number), None)),
    "nats": System(
        "nats",
        nats,
        _triggered,
        lambda number: Asked(
            [("Nats-Scheduler", named("nats", number)), ("Nats-Schedule-Next", b"purge")], b"elsewhere", b"stopped"
        ),
    ),
    "spring": System(
        "spring:*",
        _header(BACKOFF, lambda due_ms: due_ms.to_bytes(6)),
        _unchanged(BACKOFF, int.from_bytes),
        native_cancel,
    ),
    "deliver-after": System(
        "deliver-after:*", _header("deliverAfter", _digits), _unchanged("deliverAfter", int), native_cancel
    ),
    "publish-after": System(
        "publish-after:*", _header("publish-after-ts", _digits), _unchanged("publish-after-ts", int), native_cancel
    ),
}
