"""The gateway's desk behind the routes of messages: checks and writes them, waits for events, and asks workers."""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, Self

from aiohttp import web

from app.base.clock import Clock
from app.base.newest import Newest
from app.engine.ingest.quotas import Quotas
from app.gateway.admission import GatewayAdmission
from app.gateway.outcomes import EventFollower
from app.gateway.parts import GatewayParts
from app.gateway.spool.errors import SpoolFull
from app.gateway.spool.submission import Refused, Taken
from app.gateway.workers import Workers
from app.serve.access.caller import caller_of
from app.serve.actions.commands import outcome_of
from app.serve.messages.acceptance import Acceptance, Accepted, Draft
from app.serve.messages.desk import Done, hand_in
from app.serve.messages.outcome import PENDING, SPOOLED, Outcome
from app.serve.messages.receipts import ORIGIN
from app.serve.web.problem import Problem
from punctual.contract.home import home_partition

#: How long after sending a message may still be missing; a worker usually reads it within milliseconds.
_SETTLE_S: Final = 1.0
_MOST: Final = 10_000
#: The maximum wait for an outcome, and for brokers to start returning events.
_PATIENCE_S: Final = 5.0
_BEGIN_S: Final = 2.0
#: An event is written a moment before a worker's table changes.
_APPLIED_S: Final = 0.1
_LOOK_S: Final = 0.05


class Recent:
    """IDs that were sent recently: a worker may not have read them yet when their senders look."""

    def __init__(self) -> None:
        self._sent_s = Newest[str, float](_MOST)

    def sent(self, id_: str) -> None:
        """Record that Kafka has just stored a message."""
        self._sent_s[id_] = asyncio.get_running_loop().time()

    def may_come(self, id_: str) -> bool:
        """Return whether a message that is missing may appear in a moment."""
        sent_s = self._sent_s.get(id_)
        return sent_s is not None and asyncio.get_running_loop().time() - sent_s < _SETTLE_S


class Stored(Done, frozen=True, kw_only=True):
    """A message that is safe, and its place in Kafka or the spool."""

    taken: Taken

    @classmethod
    def of(cls, accepted: Accepted, taken: Taken) -> Self:
        """Join the accepted message and the outcome of its record."""
        is_known = not taken.spooled and taken.offset is not None
        source = f"{accepted.submission.topic}-{taken.partition}-{taken.offset}" if is_known else None
        return cls(accepted, source, taken.spooled, taken=taken)


class GatewayDesk:
    """Answers for messages at a gateway."""

    def __init__(self, parts: GatewayParts, workers: Workers) -> None:
        settings = parts.settings
        self._topics, self._parts, self._workers = settings.topics, parts, workers
        quotas = Quotas(settings.topics, {}, (), workers.reports, lambda: Clock.monotonic_ms() / 1000)
        self._acceptance = Acceptance(settings)
        self._admission = GatewayAdmission(settings, parts.connection, quotas.is_full)
        self._recent = Recent()
        connection, events = parts.connection, self._topics.events_topic
        self._followers = [EventFollower(connection, events, number) for number in range(self._topics.partitions)]

    async def read(self, request: web.Request, id_: str) -> web.Response:
        """Return a worker's response with a message; a message that was just sent may come in a moment."""
        home = self._home(id_)
        about = f"partition {home} of this ID"
        answer = await self._workers.answer(request, home, about)
        while answer.status == HTTPStatus.NOT_FOUND and self._recent.may_come(id_):
            await asyncio.sleep(_LOOK_S)
            answer = await self._workers.answer(request, home, about)
        return answer

    async def hand_in(
        self, request: web.Request, count: int, draft: Callable[[int], Draft], first: int = 0
    ) -> list[Stored | Problem]:
        """Schedule `count` messages; `draft` returns each by its number, or raises a Problem. Return all outcomes.

        `first` is the number of the first message in its request.
        """
        caller, origin = caller_of(request), request.get(ORIGIN) or self._parts.receipts.origin()

        def read(number: int) -> Accepted:
            return self._acceptance.read(draft(number), caller, origin, first + number)

        return await hand_in(count, read, self._submitted)

    async def _submitted(self, accepted: Sequence[Accepted]) -> list[Stored | Problem]:
        problems = await self._admission.check(accepted)
        admitted = [one for one, problem in zip(accepted, problems, strict=True) if problem is None]
        outcomes = iter(await self._stored(admitted))
        return [problem or next(outcomes) for problem in problems]

    async def _stored(self, admitted: Sequence[Accepted]) -> list[Stored | Problem]:
        try:
            outcomes = await self._parts.intake.submit([one.submission for one in admitted])
        except SpoolFull as error:
            sentence = f"Kafka does not accept it, and {error}. Send it again later, with the same ID or key."
            return [Problem("disk-full", sentence)] * len(admitted)
        for one, outcome in zip(admitted, outcomes, strict=True):
            if isinstance(outcome, Taken) and not outcome.spooled and one.asked.op == "schedule":
                self._recent.sent(one.submission.id)
        return [
            Problem(outcome.reason, outcome.sentence) if isinstance(outcome, Refused) else Stored.of(one, outcome)
            for one, outcome in zip(admitted, outcomes, strict=True)
        ]

    async def command(self, request: web.Request, action: str, draft: Draft) -> Outcome:
        """Send a command, and return its outcome as soon as a worker reports it."""
        id_ = (draft.key or b"").decode()
        home = self._home(id_)
        if not self._parts.connection.up:
            return _unreported(await self._sent(request, draft))
        follower = self._followers[home]
        with follower.watch(id_) as events:
            is_followed = await follower.begun(_BEGIN_S)
            done = await self._sent(request, draft)
            if not is_followed or done.source is None:
                return _unreported(done)
            try:
                event = await asyncio.wait_for(events.outcome_of(done.source), _PATIENCE_S)
            except TimeoutError:
                return _unreported(done)
        outcome = await outcome_of(self._parts.connection.cluster, self._topics.events_topic, home, action, event)
        await asyncio.sleep(_APPLIED_S)
        return outcome

    def close(self) -> None:
        """Stop reading events."""
        for follower in self._followers:
            follower.close()

    def _home(self, id_: str) -> int:
        return home_partition(id_, self._topics.inputs, self._topics.partitions)

    async def _sent(self, request: web.Request, draft: Draft) -> Stored:
        [done] = await self.hand_in(request, 1, lambda _: draft)
        if isinstance(done, Problem):
            raise done
        return done


def _unreported(done: Stored) -> Outcome:
    """Return the outcome of a command that no worker has reported yet."""
    if done.spooled:
        sentence = "It is on this gateway's disk, because Kafka is down. It takes effect as of its arrival."
        return Outcome(outcome=SPOOLED, sentence=sentence)
    sentence = "It is sent and takes effect. Its outcome was not reported in time."
    return Outcome(outcome=PENDING, sentence=sentence, source=done.source)
