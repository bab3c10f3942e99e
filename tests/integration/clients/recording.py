"""Recorded requests of other systems' clients, as lines of JSON: the client, then a record a line, bytes in base64."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.kafka import Record

RECORDED = Path(__file__).parent / "recorded"


class Recording(NamedTuple):
    """The records that a client has sent to its topic."""

    #: Who they are from: the project, its version, and how they were made.
    client: str
    dialect: str
    #: The destination of the requests.
    to: str
    records: list[Record]


def load(name: str) -> Recording:
    """Return a client's recorded requests."""
    first, *lines = (RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines()
    head = json.loads(first)
    return Recording(head["client"], head["dialect"], head["to"], [_record(json.loads(line)) for line in lines])


def save(name: str, recording: Recording) -> None:
    """Save a client's requests."""
    head = {"client": recording.client, "dialect": recording.dialect, "to": recording.to}
    lines = [head, *(_line(record) for record in recording.records)]
    (RECORDED / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")


def shapes(records: Iterable[Record]) -> list[tuple[bool, bool, list[str]]]:
    """Return the part that is the same in every recording of a client: nulls, and the names of headers in order."""
    return [(one.key is None, one.value is None, [name for name, _ in one.headers]) for one in records]


def _line(record: Record) -> dict[str, Any]:
    return {
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _record(line: dict[str, Any]) -> Record:
    headers = [(name, _bytes(text)) for name, text in line["headers"]]
    return Record("", 0, 0, line["timestamp"], _bytes(line["key"]), _bytes(line["value"]), headers)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
