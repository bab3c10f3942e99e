"""The desk: checks, completes and writes messages, and returns the outcome of each."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

from aiohttp import web

from app.gateway.desk.admission import GatewayAdmission
from app.gateway.spool.errors import SpoolFull
from app.gateway.spool.submission import Outcome, Refused, Submission, Taken
from app.serve.access.caller import caller_of
from app.serve.messages.acceptance import Acceptance, Accepted, Draft
from app.serve.messages.desk import Done, hand_in
from app.serve.messages.receipts import ORIGIN, Receipts
from app.serve.web.problem import Problem

#: How long after sending a message may still be missing; a worker usually reads it within milliseconds.
_SETTLE_S: Final = 1.0
_MOST: Final = 10_000


class Recent:
    """IDs that were sent recently: a worker may not have read them yet when their senders look."""

    def __init__(self) -> None:
        """Begin without IDs."""
        self._sent_s: OrderedDict[str, float] = OrderedDict()

    def sent(self, id_: str) -> None:
        """Record that Kafka has just stored a message."""
        self._sent_s[id_] = asyncio.get_running_loop().time()
        self._sent_s.move_to_end(id_)
        if len(self._sent_s) > _MOST:
            self._sent_s.popitem(last=False)

    def may_come(self, id_: str) -> bool:
        """Return whether a message that is missing may appear in a moment."""
        sent_s = self._sent_s.get(id_)
        return sent_s is not None and asyncio.get_running_loop().time() - sent_s < _SETTLE_S


class RecordIntake(Protocol):
    """Accepts records."""

    async def submit(self, batch: Sequence[Submission]) -> list[Outcome]:
        """Return the outcome of each record, in order. Raises SpoolFull."""
        ...


class Stored(Done, frozen=True, kw_only=True):
    """A message that is safe, and its place in Kafka or the spool."""

    taken: Taken

    @classmethod
    def of(cls, accepted: Accepted, taken: Taken) -> Self:
        """Join the accepted message and the outcome of its record."""
        is_known = not taken.spooled and taken.offset is not None
        source = f"{accepted.submission.topic}-{taken.partition}-{taken.offset}" if is_known else None
        return cls(accepted, source, taken.spooled, taken=taken)


class Desk:
    """Sends the messages in requests."""

    def __init__(
        self, acceptance: Acceptance, admission: GatewayAdmission, intake: RecordIntake, receipts: Receipts
    ) -> None:
        """Check messages with `acceptance` and `admission`, and send them to `intake`."""
        self._acceptance, self._admission = acceptance, admission
        self._intake, self._receipts = intake, receipts
        #: The IDs that were sent recently.
        self.recent = Recent()

    async def hand_in(
        self, request: web.Request, count: int, draft: Callable[[int], Draft], first: int = 0
    ) -> list[Stored | Problem]:
        """Send `count` messages; `draft` returns each by its number, or raises a Problem. Return all outcomes.

        `first` is the number of the first message in its request.
        """
        caller, origin = caller_of(request), request.get(ORIGIN) or self._receipts.origin()

        def read(number: int) -> Accepted:
            return self._acceptance.read(draft(number), caller, origin, first + number)

        return await hand_in(count, read, self._submitted)

    async def _submitted(self, accepted: Sequence[Accepted]) -> list[Stored | Problem]:
        """Submit the admitted messages, and return all outcomes."""
        problems = await self._admission.check(accepted)
        admitted = [one for one, problem in zip(accepted, problems, strict=True) if problem is None]
        done = iter(await self._taken(admitted))
        return [next(done) if problem is None else problem for problem in problems]

    async def _taken(self, admitted: Sequence[Accepted]) -> list[Stored | Problem]:
        if not admitted:
            return []
        try:
            outcomes = await self._intake.submit([one.submission for one in admitted])
        except SpoolFull as error:
            full = spool_full(error)
            return [full] * len(admitted)
        for one, outcome in zip(admitted, outcomes, strict=True):
            if isinstance(outcome, Taken) and not outcome.spooled and one.asked.op == "schedule":
                self.recent.sent(one.submission.id)
        return [
            Problem(outcome.reason, outcome.sentence) if isinstance(outcome, Refused) else Stored.of(one, outcome)
            for one, outcome in zip(admitted, outcomes, strict=True)
        ]


def spool_full(error: SpoolFull) -> Problem:
    """Return the problem for a full spool."""
    sentence = f"Kafka does not accept it, and {error}. Send it again later, with the same ID or key."
    return Problem("disk-full", sentence, headers={"Retry-After": str(error.retry_after_s)})
