"""What `punctual export` writes and `punctual import` reads: pending messages, a line of JSON each."""

import base64
from collections.abc import Mapping
from typing import Any, Self

import msgspec


class ExportedBytes(msgspec.Struct, frozen=True):
    """Bytes that are no UTF-8."""

    base64: bytes


#: Bytes: as text if they are UTF-8. None is Kafka's null.
Octets = str | ExportedBytes | None


class ExportedPolicies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for beside the time and the place; durations are milliseconds."""

    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    no_later_ms: int | None = None
    on_failure: str | None = None
    partition: int | None = None


class ExportedSeries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a recurring message goes on, as the API tells it."""

    headers: dict[str, str]
    planned_ms: int
    paused: bool = False
    extra: bool = False
    paused_since_ms: int | None = None
    kept_due_ms: int | None = None


class Exported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pending message of the installation `app_id`, as it was then; the other fields are the API's.

    Each line says all that is needed, so that lines can be chosen, split up and put together.
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
        """Return a row of the API, which has the whole value."""
        said = {name: row[name] for name in _AS_THEY_ARE if row.get(name) is not None}
        said |= {name: _octets(row[name]) for name in ("key", "value")}
        said["headers"] = [(name, _octets(value)) for name, value in row["headers"]]
        return msgspec.convert({**said, "app_id": app_id, "exported_ms": exported_ms}, cls)

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Return the message in a line. Raises ValueError with what is wrong with it."""
        try:
            return msgspec.json.decode(line, type=cls)
        except RecursionError as error:
            raise ValueError("it is JSON with too many levels of nesting") from error


_AS_THEY_ARE = (
    *("id", "to", "due_ms", "source", "cluster", "asked_ms", "latest_ms", "asked_due_ms", "series", "policies"),
)


def octets(said: Octets) -> bytes | None:
    """Return the bytes that a line says."""
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
