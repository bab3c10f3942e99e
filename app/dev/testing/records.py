"""The messages of a test: pending messages, written records and posts."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Headers = tuple[tuple[str, bytes | None], ...]


def time_of(epoch_ms: int) -> datetime:
    """Return a time in epoch milliseconds as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=epoch_ms)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a simulated topic, with the field names of Kafka's clients; `timestamp` is epoch ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    cluster: str | None = None

    @property
    def at(self) -> datetime:
        """The simulated time at which it was written."""
        return time_of(self.timestamp)

    def header(self, name: str) -> str | None:
        """Return the last header with a name as text, None if there is none."""
        values = [value for key, value in self.headers if key == name and value is not None]
        return values[-1].decode() if values else None

    def json(self) -> Any:
        """Return the value, parsed as JSON."""
        return json.loads(self.value or b"null")


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending message; of a series, its next occurrence. `due` is None while the series is paused."""

    id: str
    to: str
    due: datetime | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Post:
    """A POST request to a URL at a simulated time, and the status of its response."""

    url: str
    body: bytes
    headers: tuple[tuple[str, str], ...]
    at: datetime
    status: int = 0
