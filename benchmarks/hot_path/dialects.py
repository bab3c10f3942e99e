"""Requests as other systems' producers send them: the cost of reading a dialect, compared with the native one."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

#: Names the dialect that requests are in, without it the native one.
DIALECT = "HOT_PATH_DIALECT"
#: The topic of all but native ones.
INPUT = "hot-path"

Asked = tuple[list[tuple[str, bytes]], bytes, bytes]
_json = msgspec.json.encode


def _etf1(to: str, due_ms: int, id_: bytes, value: bytes) -> Asked:
    headers = {"scheduler-epoch": b"%d" % (due_ms // 1000), "scheduler-target-topic": to.encode()}
    return [*headers.items(), ("scheduler-target-key", id_)], id_, value


def _karafka(to: str, due_ms: int, id_: bytes, value: bytes) -> Asked:
    headers = {
        "schedule_schema_version": b"1.0.0",
        "schedule_target_epoch": b"%d" % (due_ms // 1000),
        "schedule_source_type": b"schedule",
        "schedule_target_topic": to.encode(),
        "schedule_target_key": id_,
    }
    return list(headers.items()), id_, value


def _nats(to: str, due_ms: int, id_: bytes, value: bytes) -> Asked:
    at = datetime.fromtimestamp(due_ms // 1000, UTC).strftime("@at %Y-%m-%dT%H:%M:%SZ")
    return [("Nats-Schedule", at.encode()), ("Nats-Schedule-Target", to.encode())], id_, value


def _countdown(to: str, _due_ms: int, id_: bytes, value: bytes) -> Asked:
    return [("CALLER_SERVICE", b"S")], id_, _json({"topic": to, "message": _text(value), "countdown": 3600})


def _airtel(to: str, due_ms: int, id_: bytes, value: bytes) -> Asked:
    body = {"topic": to, "key": id_.decode(), "value": _text(value), "headers": {"trace": "1"}, "postTime": due_ms}
    return [], id_, _json(body)


def _header(name: str, header_value: Callable[[int], bytes]) -> Callable[[str, int, bytes, bytes], Asked]:
    def ask(_to: str, due_ms: int, id_: bytes, value: bytes) -> Asked:
        return [(name, header_value(due_ms))], id_, value

    return ask


def _digits(due_ms: int) -> bytes:
    return b"%d" % due_ms


def _text(value: bytes) -> str:
    """Return as many letters as there are bytes."""
    return value.hex()[: len(value)]


#: The setting of an input, and its request maker, by dialect.
DIALECTS: dict[str, tuple[str, Callable[[str, int, bytes, bytes], Asked]]] = {
    "countdown": ("countdown", _countdown),
    "airtel": ("airtel", _airtel),
    "etf1": ("etf1", _etf1),
    "karafka": ("karafka", _karafka),
    "nats": ("nats", _nats),
    "spring": ("spring:orders", _header("retry_topic-backoff-timestamp", lambda due_ms: due_ms.to_bytes(6))),
    "deliver-after": ("deliver-after:orders", _header("deliverAfter", _digits)),
    "publish-after": ("publish-after:orders", _header("publish-after-ts", _digits)),
}


def request_maker() -> Callable[[str, int, bytes, bytes], Asked] | None:
    """Set DELAY_INPUTS for the environment's dialect, and return its request maker; None means native."""
    name = os.environ.get(DIALECT)
    if name is None:
        return None
    setting, ask = DIALECTS[name]
    os.environ["DELAY_INPUTS"] = f"{INPUT}={setting}"
    return ask
