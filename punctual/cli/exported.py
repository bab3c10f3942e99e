"""The format of `punctual export` and `punctual import`: pending messages as JSON, one per line."""

import base64
from collections.abc import Mapping
from typing import Any, Self

import msgspec


class ExportedBytes(msgspec.Struct, frozen=True):
    """Bytes that are not UTF-8."""

    base64: bytes


#: Bytes, as text if they are UTF-8. None is Kafka's null.
Octets = str | ExportedBytes | None


class ExportedPolicies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The requested policies; durations are milliseconds."""

    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    no_later_ms: int | None = None
    on_failure: str | None = None
    partition: int | None = None


class ExportedSeries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The recurrence of a message, in the API's form."""

    headers: dict[str, str]
    planned_ms: int
    paused: bool = False
    extra: bool = False
    paused_since_ms: int | None = None
    kept_due_ms: int | None = None


class Exported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pending message of the installation `app_id` at the time of the export; the other fields are the API's.

    Each line is complete in itself, so that a file can be filtered, split and merged.
    """

    app_id: str
    exported_ms: int
    id: str
    to: str
    due_ms: int
    source: str
    cluster: str | None = None
    key: Octets = None
    value: Octets = None
    headers: list[tuple[str, Octets]] = []
    asked_ms: int | None = None
    latest_ms: int | None = None
    asked_due_ms: int | None = None
    series: ExportedSeries | None = None
    policies: ExportedPolicies = ExportedPolicies()

    @classmethod
    def of(cls, row: Mapping[str, Any], app_id: str, exported_ms: int) -> Self:
        """Return the exported form of a row of the API that has the whole value."""
        said = {name: row[name] for name in _AS_THEY_ARE if row.get(name) is not None}
        said |= {name: _octets(row[name]) for name in ("key", "value")}
        said["headers"] = [(name, _octets(value)) for name, value in row["headers"]]
        return msgspec.convert({**said, "app_id": app_id, "exported_ms": exported_ms}, cls)

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Return the message in a line. Raises ValueError with the reason if the line is invalid."""
        try:
            return msgspec.json.decode(line, type=cls)
        except RecursionError as error:
            raise ValueError("it is JSON with too many levels of nesting") from error


_AS_THEY_ARE = (
    *("id", "to", "due_ms", "source", "cluster", "asked_ms", "latest_ms", "asked_due_ms", "series", "policies"),
)


def octets(said: Octets) -> bytes | None:
    """Return the bytes of an exported field."""
    if isinstance(said, ExportedBytes):
        return said.base64
    return None if said is None else said.encode()


def _octets(encoded: str | None) -> Octets:
    if encoded is None:
        return None
    raw = base64.b64decode(encoded)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ExportedBytes(raw)
