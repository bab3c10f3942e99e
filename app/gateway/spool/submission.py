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


class WaitingRecord(NamedTuple):
    """A record that arrived at `since_s` (event loop's clock), and the future of its outcome."""

    submission: Submission
    since_s: float
    outcome: asyncio.Future[Outcome | SpoolFull]

    def settle(self, outcome: Outcome | SpoolFull) -> None:
        """Set the outcome, or the error if the record is not accepted, unless its sender has gone."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


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
