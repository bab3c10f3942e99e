"""Start markers and end markers as requests and commands, without any I/O.

The start marker of a record is the record itself, delayed by the timeout: without an end marker, the worker delivers
it again. The end marker is its cancel.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from punctual.client.requests import Request
from punctual.client.retries import DEFAULT_BACKOFF, Received, attempt_of, counted, retry
from punctual.client.user_headers import RawHeader
from punctual.contract import headers as names
from punctual.contract.request import ID_BYTES
from punctual.queue.message import Message

_CANCEL: RawHeader = (names.OP, b"cancel")
#: The hash that replaces an id that would be too long.
_HASHED: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Markers:
    """Makes the markers of one group on a topic; unacknowledged messages are delivered again to the topic `to`."""

    group: str
    topic: str
    to: str
    timeout_ms: int
    max_attempts: int | None
    namespace: str = ""

    def attempt_at(self, record: Received) -> int:
        """Return the attempt number of a record; a record that no marker of this group has brought back is the first.

        Its producer may have copied the headers of another message that the queue has handed out.
        """
        headers = dict(reversed(record.headers or ()))
        id_ = (headers.get(names.ID) or b"").decode(errors="replace").removeprefix(f"{self.namespace}/")
        brought_back = record.topic == self.to and names.DUE in headers and self._is_ours(id_)
        return attempt_of(headers) if brought_back else 1

    def _is_ours(self, id_: str) -> bool:
        """Return whether an id belongs to a marker of this group for a record of its topics."""
        if _HASHED.fullmatch(id_):
            return True
        group, _, place = id_.rpartition(":")
        return group == self.group and place.rsplit("-", 2)[0] in (self.topic, self.to)

    def id_of(self, topic: str, partition: int, offset: int) -> str:
        """Return the id of a record's marker, the same for every consumer of the group that reads the record."""
        id_ = f"{self.group}:{topic}-{partition}-{offset}"
        if len(id_.encode()) <= ID_BYTES:
            return id_
        return hashlib.blake2b(id_.encode(), digest_size=32).hexdigest()

    def start(self, message: Message) -> Request:
        """Return the request that brings a message back as the next attempt, after the timeout."""
        return self._back(message, message.attempt + 1, self.timeout_ms)

    def release(self, message: Message, after_ms: int) -> Request:
        """Return the request that brings a message back as the same attempt, in place of its start marker."""
        return self._back(message, message.attempt, after_ms)

    def end(self, message: Message) -> Request:
        """Return the command that keeps a message from coming back."""
        id_ = message.id.encode()
        return Request(id_, None, (_CANCEL, (names.ID, id_)), id_)

    def later(self, message: Message, after_ms: int) -> Request:
        """Return the command that brings a message back after exactly `after_ms` milliseconds."""
        id_ = message.id.encode()
        headers: tuple[RawHeader, ...] = (
            (names.OP, b"reschedule"),
            (names.ID, id_),
            (names.AFTER, b"%d" % after_ms),
            (names.JITTER, b"0"),  # overrides the input's policy
        )
        return Request(id_, None, headers, id_)

    def exhausted(self, message: Message, error: BaseException | str | None) -> Request:
        """Return the request that makes a message a dead letter after its last attempt."""
        assert self.max_attempts is not None, "there is no last attempt"
        record = counted(message, self.max_attempts)
        return retry(record, backoff=DEFAULT_BACKOFF, max_attempts=self.max_attempts, to=self.to, error=error)

    def is_over(self, attempt: int) -> bool:
        """Return whether an attempt with this number would be beyond the maximum."""
        return self.max_attempts is not None and attempt > self.max_attempts

    def _back(self, message: Message, attempt: int, after_ms: int) -> Request:
        id_ = message.id.encode()
        users = [header for header in message.headers if not header[0].startswith(names.PREFIX)]
        headers: tuple[RawHeader, ...] = (
            (names.TO, self.to.encode()),
            (names.AFTER, b"%d" % after_ms),
            (names.ID, id_),
            (names.ATTEMPT, b"%d" % attempt),
        )
        return Request(message.key, message.value, (*users, *headers), id_)
