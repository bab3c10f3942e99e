"""Records as a consumer gives them, for tests that need no broker."""

from collections.abc import Sequence
from dataclasses import dataclass, field

REQUESTS = "delay-requests"
#: 2026-01-01T00:00:00Z
NOW = 1_767_225_600_000


@dataclass
class FakeRecord:
    """What decoders read of a Kafka record."""

    headers: Sequence[tuple[str, bytes | None]]
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    topic: str = REQUESTS
    partition: int = 3
    offset: int = 42
    timestamp: int = NOW


@dataclass
class Log:
    """An input topic partition: records get offsets one after the other."""

    topic: str = REQUESTS
    partition: int = 0
    offset: int = field(default=0)

    def record(self, stamp: int = NOW, /, **said: str | bytes | None) -> FakeRecord:
        """Append a record whose headers are `said`: delay_to="orders" is delay-to, x_y is the user's x-y."""
        headers = [
            (name.replace("_", "-"), text.encode() if isinstance(text, str) else text) for name, text in said.items()
        ]
        record = FakeRecord(headers, b"k", b"v", self.topic, self.partition, self.offset, stamp)
        self.offset += 1
        return record
