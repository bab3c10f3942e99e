"""Records of requests, and their outcomes."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.gateway.spool.errors import SpoolFull
from app.serve.messages.acceptance import Submission

__all__ = ["Outcome", "Refused", "SpoolFull", "Submission", "Taken"]


class Taken(msgspec.Struct, frozen=True):
    """A record that is safe: in Kafka, at the broker's offset, or `spooled`, on the disk of this gateway."""

    spooled: bool
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class Refused(msgspec.Struct, frozen=True):
    """A record that Kafka refuses for good. `reason` is one of the contract's codes, `sentence` tells users the fix."""

    reason: str
    sentence: str


Outcome = Taken | Refused


class RequestShare:
    """Records of one request for one place; `done` returns their outcomes, in order, or raises SpoolFull."""

    __slots__ = ("_left", "_outcomes", "done", "since", "submissions")

    def __init__(self, submissions: Sequence[Submission]) -> None:
        """Begin without outcomes."""
        loop = asyncio.get_running_loop()
        self.submissions, self.since = submissions, loop.time()
        self._outcomes: list[Outcome | None] = [None] * len(submissions)
        self._left = len(submissions)
        self.done: asyncio.Future[list[Outcome | None]] = loop.create_future()

    def settle(self, number: int, outcome: Outcome) -> None:
        """Set the outcome of a record; called once for each."""
        self._outcomes[number] = outcome
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(self._outcomes)

    def fail(self, error: BaseException) -> None:
        """Make `done` raise an error, because a record could not be accepted."""
        if not self.done.done():
            self.done.set_exception(error)


class WaitingRecord(NamedTuple):
    """A record without an outcome."""

    share: RequestShare
    number: int

    @property
    def submission(self) -> Submission:
        """The record."""
        return self.share.submissions[self.number]
