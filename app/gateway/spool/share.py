"""What one request has handed in for one partition, and what becomes of it."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from app.gateway.spool.submission import Outcome, Submission


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
