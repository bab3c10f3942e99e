"""The format of `punctual export` and `punctual import`: pending messages in the form of the API, one per line."""

import base64
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec


class ExportedBytes(msgspec.Struct, frozen=True):
    """Bytes that are not UTF-8."""

    base64: bytes


#: Bytes, as text if they are UTF-8. None is Kafka's null.
Octets = str | ExportedBytes | None
_OF_A_SERIES: Final = ("every", "cron", "zone", "until", "count", "misfire", "jitter")


def _name(name: str) -> str:
    """Return the name of a field in JSON: of a native header, or of the message's state, with its unit."""
    return name if name == "app_id" or name.endswith("_ms") else name.replace("_", "-")


class Exported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_name):
    """One pending message of the installation `app_id` at the time of the export; the other fields are the API's.

    Each line is complete in itself, so that a file can be filtered, split and merged, and can be sent to the API.
    """

    app_id: str
    exported_ms: int
    id: str
    to: str
    due_ms: int
    source: str
    at: str | None = None
    key: Octets = None
    value: Octets = None
    headers: list[tuple[str, Octets]] = []
    to_partition: int | None = None
    to_cluster: str | None = None
    max_late: int | None = None
    if_late: str | None = None
    dedupe: int | None = None
    no_later: int | None = None
    on_failure: str | None = None
    every: str | None = None
    cron: str | None = None
    zone: str | None = None
    until: str | None = None
    count: str | None = None
    misfire: str | None = None
    jitter: str | None = None
    asked_ms: int | None = None
    latest_ms: int | None = None
    asked_due_ms: int | None = None
    planned_ms: int | None = None
    extra: bool = False
    paused: bool = False
    paused_since_ms: int | None = None
    kept_due_ms: int | None = None

    @property
    def recurs(self) -> bool:
        """Whether it is a recurring message."""
        return self.planned_ms is not None

    @property
    def schedule(self) -> dict[str, str]:
        """The fields of a recurring message's schedule, by name."""
        return {name: text for name in _OF_A_SERIES if (text := getattr(self, name)) is not None}

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Return the message in a line. Raises ValueError with the reason if the line is invalid."""
        try:
            message = msgspec.json.decode(line)
            return msgspec.convert(_renamed(message) if isinstance(message, dict) else message, cls)
        except RecursionError as error:
            raise ValueError("it is JSON with too many levels of nesting") from error


#: The names that files of earlier versions have in `policies`.
_FORMER: Final = {"partition": "to-partition", "max_late_ms": "max-late", "dedupe_ms": "dedupe",
                  "no_later_ms": "no-later"}  # fmt: skip


def _renamed(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line in the present form: earlier versions put the parts of a message into groups."""
    series, policies = line.pop("series", None) or {}, line.pop("policies", None) or {}
    if "cluster" in line:
        line["to-cluster"] = line.pop("cluster")
    schedule = {name.removeprefix("delay-"): text for name, text in series.pop("headers", {}).items()}
    options = {_FORMER.get(name, _name(name)): value for name, value in policies.items()}
    return {**line, **options, **series, **schedule}


def octets(value: Octets) -> bytes | None:
    """Return the bytes of an exported field."""
    if isinstance(value, ExportedBytes):
        return value.base64
    return None if value is None else value.encode()


def bytes_of(field: str | Mapping[str, str] | None) -> bytes | None:
    """Return the bytes of a field of the API: text, or an object with `base64`; None for null."""
    if field is None or isinstance(field, str):
        return None if field is None else field.encode()
    return base64.b64decode(field["base64"])
