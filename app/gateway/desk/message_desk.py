"""The gateway's desk behind the routes of messages: commands wait for events, and workers find pending messages."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.gateway.api.outcomes import CommandOutcomes, Watch
from app.gateway.api.workers import Workers
from app.gateway.desk.desk import Desk, Stored
from app.serve.messages.acceptance import Draft
from app.serve.messages.outcome import PENDING, SPOOLED, Outcome
from app.serve.web.problem import Problem
from app.settings.topics import TopicSettings
from punctual.contract.home import home_partition

#: The maximum wait for an outcome, and for brokers to start returning events.
_PATIENCE_S: Final = 5.0
_BEGIN_S: Final = 2.0
#: An event is written a moment before a worker's table changes.
_APPLIED_S: Final = 0.1
_LOOK_S: Final = 0.05


class GatewayDesk:
    """Answers for messages at a gateway."""

    def __init__(self, topics: TopicSettings, desk: Desk, outcomes: CommandOutcomes, workers: Workers) -> None:
        """Send through `desk`, wait for `outcomes` of commands, and ask `workers` for pending messages."""
        self._topics, self._desk = topics, desk
        self._outcomes, self._workers = outcomes, workers

    async def read(self, request: web.Request, id_: str) -> web.Response:
        """Return a worker's response with a message; a message that was just sent may come in a moment."""
        home = home_partition(id_, self._topics.inputs, self._topics.partitions)
        about = f"partition {home} of this ID"
        answer = await self._workers.answer(request, home, about)
        while answer.status == HTTPStatus.NOT_FOUND and self._desk.recent.may_come(id_):
            await asyncio.sleep(_LOOK_S)
            answer = await self._workers.answer(request, home, about)
        return answer

    async def hand_in(self, request: web.Request, count: int, draft: Callable[[int], Draft]) -> list[Stored | Problem]:
        """Schedule messages, and return their outcomes."""
        return await self._desk.hand_in(request, count, draft)

    async def command(self, request: web.Request, action: str, draft: Draft) -> Outcome:
        """Send a command, and return its outcome as soon as a worker reports it."""
        id_ = (draft.key or b"").decode()
        home = home_partition(id_, self._topics.inputs, self._topics.partitions)
        if not self._outcomes.told:
            return _unheard(await self._given(request, draft))
        follower = self._outcomes.of(home)
        with follower.watch(id_) as watch:
            try:
                await asyncio.wait_for(follower.begun(), _BEGIN_S)
            except TimeoutError:
                return _unheard(await self._given(request, draft))
            done = await self._given(request, draft)
            return _unheard(done) if done.source is None else await self._heard(action, home, done, watch)

    async def _given(self, request: web.Request, draft: Draft) -> Stored:
        """Send a command. Raises Problem if it is refused."""
        [done] = await self._desk.hand_in(request, 1, lambda _: draft)
        if isinstance(done, Problem):
            raise done
        return done

    async def _heard(self, action: str, home: int, done: Stored, watch: Watch) -> Outcome:
        """Return the outcome of a command that Kafka has stored."""
        source = done.source or ""
        try:
            event = await asyncio.wait_for(watch.told(source), _PATIENCE_S)
        except TimeoutError:
            return _unheard(done)
        outcome = await self._outcomes.outcome(action, home, source, event)
        await asyncio.sleep(_APPLIED_S)
        return outcome


def _unheard(done: Stored) -> Outcome:
    """Return the outcome of a command that no worker has reported yet."""
    if done.spooled:
        sentence = "It is on this gateway's disk, because Kafka is down. It takes effect as of its arrival."
        return Outcome(outcome=SPOOLED, sentence=sentence)
    sentence = "It is sent and takes effect. Its outcome was not reported in time."
    return Outcome(outcome=PENDING, sentence=sentence, source=done.source)
