"""Records of requests, their outcomes, and the number of records with each outcome."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from app.base.histogram import Histogram
from app.gateway.spool.errors import SpoolFull
from app.serve.messages.acceptance import Submission


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


class SubmittedBatch:
    """Records of one request; once all are settled, `done` returns their outcomes, in order, or raises SpoolFull."""

    __slots__ = ("_outcomes", "done", "since", "submissions")

    def __init__(self, submissions: Sequence[Submission]) -> None:
        loop = asyncio.get_running_loop()
        self.submissions, self.since = submissions, loop.time()
        self._outcomes: dict[int, Outcome | SpoolFull] = {}
        self.done: asyncio.Future[list[Outcome]] = loop.create_future()

    def settle(self, number: int, outcome: Outcome | SpoolFull) -> None:
        """Set the outcome of a record, or the error if it is not accepted. Each record is settled once."""
        self._outcomes[number] = outcome
        if len(self._outcomes) < len(self.submissions) or self.done.done():
            return
        errors = [one for one in self._outcomes.values() if isinstance(one, SpoolFull)]
        if errors:
            self.done.set_exception(errors[0])
        else:
            outcomes = (self._outcomes[number] for number in range(len(self.submissions)))
            self.done.set_result([one for one in outcomes if not isinstance(one, SpoolFull)])


class WaitingRecord(NamedTuple):
    """A record without an outcome."""

    batch: SubmittedBatch
    number: int

    @property
    def submission(self) -> Submission:
        """The record."""
        return self.batch.submissions[self.number]


_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class SpoolTally:
    """Counts records by outcome."""

    def __init__(self) -> None:
        self.sent = self.spooled = self.refused = self.full = self.drained = self.buried = 0
        self.latency = Histogram(_BOUNDS_S)

    def produced(self, seconds: float, outcomes: Sequence[Outcome]) -> None:
        """Count a batch with these outcomes, `seconds` after its first record arrived."""
        refused = sum(isinstance(outcome, Refused) for outcome in outcomes)
        self.refused += refused
        self.sent += len(outcomes) - refused
        self.latency.add(seconds, len(outcomes))
