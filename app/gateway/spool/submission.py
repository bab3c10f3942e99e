"""Records that a request has handed in, and what has become of each."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.gateway.spool.errors import SpoolFull

__all__ = ["Outcome", "Refused", "SpoolFull", "Submission", "Taken"]


class Submission(msgspec.Struct, frozen=True, array_like=True):
    """A record for an input topic, complete: with `delay-id`, `delay-dedupe`, `delay-at` and `delay-asked-at`.

    `partition` is where it goes; None has it follow from `id`, so that all records for an id come to one partition.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    id: str


class Taken(msgspec.Struct, frozen=True):
    """A record that is safe: in Kafka, where the broker says, or `spooled`, on the disk of this gateway."""

    spooled: bool
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class Refused(msgspec.Struct, frozen=True):
    """A record that Kafka refuses for good. `reason` is one of the contract's codes, `sentence` says what to do."""

    reason: str
    sentence: str


Outcome = Taken | Refused


class RequestShare:
    """Records of one request for one place; `done` gives their outcomes, in order, or raises SpoolFull."""

    __slots__ = ("_left", "_outcomes", "done", "since", "submissions")

    def __init__(self, submissions: Sequence[Submission]) -> None:
        """Begin without outcomes."""
        loop = asyncio.get_running_loop()
        self.submissions, self.since = submissions, loop.time()
        self._outcomes: list[Outcome | None] = [None] * len(submissions)
        self._left = len(submissions)
        self.done: asyncio.Future[list[Outcome | None]] = loop.create_future()

    def settle(self, number: int, outcome: Outcome) -> None:
        """Hear what has become of a record; once of each."""
        self._outcomes[number] = outcome
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(self._outcomes)

    def fail(self, error: BaseException) -> None:
        """Hear that a record could not be taken: nothing is promised of the others then."""
        if not self.done.done():
            self.done.set_exception(error)


class WaitingRecord(NamedTuple):
    """A record that nothing has become of yet."""

    share: RequestShare
    number: int

    @property
    def submission(self) -> Submission:
        """The record."""
        return self.share.submissions[self.number]
