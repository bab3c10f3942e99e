"""The routes of one message by its ID: read, cancel, reschedule, deliver now; commands return their outcomes."""

import asyncio
import re
from typing import Any, Final

import msgspec
from aiohttp import web

from app.gateway.api.messages import as_json, entity_tag, written
from app.gateway.api.outcomes import CommandOutcomes, Watch
from app.gateway.api.pending import pending
from app.gateway.api.short_form import Span
from app.gateway.api.workers import Workers
from app.gateway.desk.acceptance import Draft
from app.gateway.desk.desk import Desk, Done
from app.gateway.http import json_input
from app.serve.access.caller import caller_of
from app.serve.actions.outcome import Outcome, problem_of
from app.serve.web.ids import id_in
from app.serve.web.problem import Problem, pointer
from app.settings.topics import TopicSettings
from punctual.contract import headers as names
from punctual.contract.home import home_partition
from punctual.contract.request import Refusal

#: The maximum wait for an outcome, and for brokers to start returning events.
_PATIENCE_S: Final = 5.0
_BEGIN_S: Final = 2.0
#: An event is written a moment before a worker's table changes.
_APPLIED_S: Final = 0.1
_LOOK_S: Final = 0.05
_TAG: Final = re.compile(r'"(\d{1,15})"', re.ASCII)
_PATCHES: Final = (*json_input.JSON, "application/merge-patch+json")
_NAMES: Final = ("at", "after", "jitter")


class Reschedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new due time: `at`, or `after` from now, with its own `jitter`, or none."""

    at: Span = None
    after: Span = None
    jitter: Span = None


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a command.

    `outcome` is the event's name: `cancelled`, or `rescheduled` (also for `deliver-now`). `pending`: accepted, outcome
    not known yet; `spooled`: on this gateway's disk until Kafka accepts it; `sent`: events are switched off. `due` is
    the current due time.
    """

    id: str
    outcome: str
    sentence: str
    due: str | None = None
    due_ms: int | None = None
    source: str | None = None


_once: Final = json_input.UniqueFields(_NAMES)
_reschedule: Final = msgspec.json.Decoder(Reschedule)


class MessageByIdRoutes:
    """Answers about one message."""

    def __init__(self, topics: TopicSettings, desk: Desk, outcomes: CommandOutcomes, workers: Workers) -> None:
        """Send commands through `desk`, wait for their outcomes, and ask `workers` for pending messages."""
        self._topics, self._desk = topics, desk
        self._outcomes, self._workers = outcomes, workers

    async def get(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages/{id} with the pending message."""
        id_ = self._id(request)
        row = await self._workers.message(id_)
        while row is None and self._desk.recent.may_come(id_):
            await asyncio.sleep(_LOOK_S)
            row = await self._workers.message(id_)
        if row is None:
            raise Problem("unknown-message", f"No message with the id {id_!r} is pending.", id=id_)
        return as_json(pending(row), headers={"ETag": entity_tag(row.due_ms)})

    async def delete(self, request: web.Request) -> web.Response:
        """Answer DELETE /api/v1/messages/{id}: cancel the message."""
        return await self._command(request, "cancel", {})

    async def patch(self, request: web.Request) -> web.Response:
        """Answer PATCH /api/v1/messages/{id}: change the due time of the message."""
        raw = await json_input.read_body(request, _PATCHES)
        said = json_input.decode(_reschedule, raw)
        _once.check(raw)
        given = {name: getattr(said, name) for name in _NAMES}
        return await self._command(
            request, "reschedule", {name: str(one) for name, one in given.items() if one is not None}
        )

    async def deliver_now(self, request: web.Request) -> web.Response:
        """Answer POST /api/v1/messages/{id}/deliver-now: make the message due at once."""
        return await self._command(request, "deliver-now", {})

    def _id(self, request: web.Request) -> str:
        """Return the full ID in a request's URL. Raises Problem."""
        id_ = id_in(request)
        try:
            id_.encode()
            return caller_of(request).full_id(id_, self._topics.namespaces)
        except UnicodeEncodeError as error:
            raise Problem("unknown-message", "The ID is not UTF-8.") from error
        except Refusal as refusal:
            raise Problem(refusal.reason.value, refusal.sentence) from refusal

    async def _command(self, request: web.Request, action: str, said: dict[str, str]) -> web.Response:
        """Send a command for a message, and return the response with its outcome."""
        id_, if_due = self._id(request), _if_due(request)
        headers: list[tuple[str, bytes | None]] = [(names.OP, action.encode()), (names.ID, id_.encode())]
        headers += [(names.PREFIX + name, value.encode()) for name, value in said.items()]
        if if_due is not None:
            headers.append((names.IF_DUE, if_due))
        places = {names.PREFIX + name: pointer(name) for name in _NAMES}
        draft = Draft(self._topics.requests, id_.encode(), None, headers, places=places)
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
            if done.source is None:
                return _unheard(done)
            return await self._heard(action, home, done, watch, conditional=if_due is not None)

    async def _given(self, request: web.Request, draft: Draft) -> Done:
        """Send a command. Raises Problem if it is refused."""
        [done] = await self._desk.hand_in(request, 1, lambda _: draft)
        if isinstance(done, Problem):
            raise done
        return done

    async def _heard(self, action: str, home: int, done: Done, watch: Watch, *, conditional: bool) -> web.Response:
        """Return the response with the outcome of a command that Kafka has stored."""
        source = done.source or ""
        try:
            event = await asyncio.wait_for(watch.told(source), _PATIENCE_S)
        except TimeoutError:
            return _unheard(done)
        outcome = await self._outcomes.outcome(action, home, source, event)
        failed = problem_of(outcome, conditional=conditional, id=done.id)
        if failed is not None:
            raise failed
        await asyncio.sleep(_APPLIED_S)
        return _answer(done.id, outcome, event)


def _if_due(request: web.Request) -> bytes | None:
    """Return the due time in If-Match, None without one. Raises Problem."""
    said = request.headers.getall("If-Match", [])
    if not said or said == ["*"]:
        return None
    match = _TAG.fullmatch(said[0].strip()) if len(said) == 1 else None
    if match is None:
        sentence = "If-Match must be one entity tag, as in ETag: the due time in epoch milliseconds, in quotes."
        raise Problem("changed" if len(said) == 1 and "," not in said[0] else "bad-request", sentence)
    return match[1].encode()


def _unheard(done: Done) -> web.Response:
    """Return the response for a command whose outcome is not known yet."""
    if done.taken.spooled:
        outcome, sentence = (
            "spooled",
            "It is on this gateway's disk, because Kafka is down. It takes effect as of its arrival.",
        )
    else:
        outcome, sentence = "pending", "It is sent and takes effect. Its outcome was not reported in time."
    return as_json(CommandOutcome(id=done.id, outcome=outcome, sentence=sentence, source=done.source), 202)


def _answer(id_: str, outcome: Outcome, event: dict[str, Any]) -> web.Response:
    due_ms = event.get("due") if outcome.outcome == "rescheduled" else None
    answer = CommandOutcome(
        id=id_,
        outcome=outcome.outcome,
        sentence=outcome.sentence,
        due=None if due_ms is None else written(due_ms),
        due_ms=due_ms,
        source=outcome.source,
    )
    return as_json(answer, headers={} if due_ms is None else {"ETag": entity_tag(due_ms)})
