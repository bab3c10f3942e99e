"""What a test sees of messages: those that wait, and what has been written and posted."""

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
    """A record of a simulated topic, with the names that Kafka's clients give its parts; `timestamp` is epoch ms."""

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
        """When it was written, by the simulated clock."""
        return time_of(self.timestamp)

    def header(self, name: str) -> str | None:
        """Return the last header of a name as text, None if there is none."""
        found = [value for key, value in self.headers if key == name and value is not None]
        return found[-1].decode() if found else None

    def json(self) -> Any:
        """Return what the value says in JSON."""
        return json.loads(self.value or b"null")


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that waits; of a series, its next occurrence. `due` is None while its series is paused."""

    id: str
    to: str
    due: datetime | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Post:
    """What was posted to a URL, by the simulated clock, and the status that it was answered with."""

    url: str
    body: bytes
    headers: tuple[tuple[str, str], ...]
    at: datetime
    status: int = 0
