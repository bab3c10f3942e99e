"""A dead letter as the API returns it, with bytes in base64, and the filter for dead letters."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

from app.engine.steps.dead_letters import LEFT_OUT
from app.kafka.metadata.reader import Stored
from app.serve.search.filter import QueryFilter
from app.serve.search.pending import SHOWN, size_of
from punctual.contract import headers as names
from punctual.contract.destination import shown
from punctual.contract.dialects.dialects import DIALECTS
from punctual.contract.namespaces import Namespaces

#: The headers that name a destination, in any dialect.
_DESTINATIONS: Final = {name for one in DIALECTS.values() for name in (one.words.to, one.words.on_failure)}
_LATEST_MS: Final = (1 << 63) - 1


class SentAgain(msgspec.Struct, frozen=True):
    """When a dead letter was sent again (epoch ms), by which user, and by which job, if a job did it."""

    at_ms: int
    by: str
    job_id: str | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter and its position on the topic; `at_ms` is when it was written (epoch ms).

    `key`, `value` and headers' values are base64, or null as in Kafka. `id` and `to` are null if no header has
    them, as with other systems' formats. `incomplete` says whether parts were left out because they were too large.
    """

    partition: int
    offset: int
    at_ms: int
    reason: str
    error: str
    source: str
    id: str | None = None
    to: str | None = None
    key: bytes | None = None
    value: bytes | None = None
    value_bytes: int = 0
    headers: list[tuple[str, bytes | None]] = []
    incomplete: bool = False
    masked: bool = False
    sent_again: SentAgain | None = None

    @classmethod
    def of(cls, partition: int, record: Stored, *, most: int | None = SHOWN) -> Self:
        """Return the dead letter that a record of the topic holds, with `most` bytes of its value, None for all."""
        texts: dict[str, str] = {}
        for name, value in record.headers:
            texts.setdefault(name, (value or b"").decode(errors="replace"))
        error, value = texts.get(names.ERROR, ""), record.value
        return cls(
            partition=partition,
            offset=record.offset,
            at_ms=record.timestamp_ms,
            reason=texts.get(names.REASON, ""),
            error=error,
            source=texts.get(names.SOURCE, ""),
            id=texts.get(names.ID),
            to=texts.get(names.TO),
            key=record.key,
            value=value if value is None or most is None else value[:most],
            value_bytes=len(value or b""),
            headers=[(names.legible(name), value) for name, value in record.headers],
            incomplete=LEFT_OUT in error,
        )

    @property
    def place(self) -> str:
        """Its position on the topic, as URLs write it."""
        return f"{self.partition}-{self.offset}"

    @property
    def size(self) -> int:
        """The number of bytes of its content in a response."""
        return size_of(self.key, self.value, self.headers)


def namespace_of(namespaces: Namespaces, one: DeadLetter) -> str:
    """Return the namespace of a dead letter's ID, or of its source topic if it has no ID; "" for no namespace."""
    return namespaces.of_id(one.id or one.source)


def masked(one: DeadLetter) -> DeadLetter:
    """Return a dead letter without its content: sizes, header names and the reason for the dead letter stay."""
    why = names.DEAD_LETTER | {names.ID, names.TO}
    headers = [(name, value if name in why else None) for name, value in one.headers]
    hidden: dict[str, Any] = {"key": None, "value": None, "headers": headers}
    return msgspec.structs.replace(one, masked=True, **hidden)


def without_secrets(one: DeadLetter) -> DeadLetter:
    """Return a dead letter with URLs cut to their origins: user, password, path and query may be secrets."""
    headers = [(name, _origin(value) if name in _DESTINATIONS else value) for name, value in one.headers]
    return msgspec.structs.replace(one, to=None if one.to is None else shown(one.to), headers=headers)


def _origin(value: bytes | None) -> bytes | None:
    return None if value is None else shown(value.decode(errors="surrogateescape")).encode(errors="surrogateescape")


class DeadLetterFilter(QueryFilter, frozen=True, kw_only=True, omit_defaults=True):
    """Matches dead letters that have all fields that are set, by the time of writing.

    `sent_again` is `yes` or `no`. A dead letter without an ID has its source in place of it.
    """

    names = ("reason", "to", "id_prefix", "source", "written_from", "written_to", "sent_again", "namespace")
    period, latest_ms = "written", _LATEST_MS
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sent_again": ("yes", "no")}

    reason: str = ""
    written_from_ms: int = 0
    written_to_ms: int = _LATEST_MS
    sent_again: str = ""

    def fits(self, one: DeadLetter) -> bool:
        """Return whether a dead letter matches the filter."""
        return (
            self.written_from_ms <= one.at_ms <= self.written_to_ms
            and self.reason in ("", one.reason)
            and self.goes_to(one.to or "")
            and self.is_from(one.id or one.source, one.source)
            and (not self.sent_again or (self.sent_again == "yes") == (one.sent_again is not None))
        )
