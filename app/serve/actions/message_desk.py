"""The worker's desk behind the routes of messages: each request is in the audit, and waits for its event."""

from collections.abc import Callable

import msgspec
from aiohttp import web

from app.engine.engine import Engine
from app.kafka.produce.sender import Sender
from app.serve.access.caller import CALLER
from app.serve.actions.actions import Actions
from app.serve.actions.resend import Sending
from app.serve.actions.writing import NotSent
from app.serve.keys import once
from app.serve.keys.once import KEYS, KeyService
from app.serve.messages import routes
from app.serve.messages.acceptance import Acceptance, Accepted, Draft
from app.serve.messages.desk import Done, full_id, hand_in
from app.serve.messages.outcome import Outcome, problem_of
from app.serve.messages.receipts import ORIGIN, Receipts
from app.serve.search.routes import flag
from app.serve.search.search import Search
from app.serve.search.visibility import message_shown
from app.serve.web.answers import as_json
from app.serve.web.problem import Problem
from punctual.client.requests import Request
from punctual.contract import headers as names


def register(web_app: web.Application, engine: Engine, actions: Actions, search: Search) -> None:
    """Add the routes of messages, and idempotency keys, to an application that has not started.

    The first request with a key opens the keys; a worker that has seen some opens them at its start.
    """
    settings, topics = engine.settings, engine.settings.topics
    receipts, path = Receipts(topics.requests, topics.partitions), settings.data_path

    async def sender() -> Sender:
        return engine.sender

    keys = KeyService(settings.kafka, topics, path, receipts.moment_ms, sender, without_kafka=False)
    once.register(web_app, keys, topics, at_start=(path / KEYS).is_dir())
    routes.register(web_app, WorkerDesk(engine, receipts, actions, search), topics)


class WorkerDesk:
    """Answers for messages at a worker."""

    def __init__(self, engine: Engine, receipts: Receipts, actions: Actions, search: Search) -> None:
        settings = engine.settings
        self._topics, self._receipts = settings.topics, receipts
        self._actions, self._search = actions, search
        #: A request that can be recognised again must schedule the same message, so its messages are completed.
        self._once, self._acceptance = Acceptance(settings), Acceptance(settings, completes=False)

    async def read(self, request: web.Request, id_: str) -> web.Response:
        """Return the response with the message as the user may see it; with `life=1` in the query, with its history."""
        query, more = request.query, {}
        if flag(query, "life"):
            more = msgspec.to_builtins(await self._search.life(id_))
        message = await self._search.message(id_, whole=flag(query, "whole"))
        if message is None:
            raise Problem("unknown-message", f"No message with the id {id_!r} is pending.", id=id_, **more)
        fields = msgspec.to_builtins(message_shown(message, request[CALLER]))
        return as_json({**fields, **more}, headers=routes.tagged(message.due_ms))

    async def hand_in(self, request: web.Request, count: int, draft: Callable[[int], Draft]) -> list[Done | Problem]:
        """Schedule messages, and return their outcomes."""

        async def send(accepted: list[Accepted]) -> list[Done | Problem]:
            command = accepted[0].asked.op if len(accepted) == 1 else "schedule"
            action = "create" if command == "schedule" else command
            outcomes = await self._actions.send(request[CALLER], action, [_sending(one) for one in accepted])
            return [_done(one, outcome) for one, outcome in zip(accepted, outcomes, strict=True)]

        return await hand_in(count, lambda number: self._accepted(request, draft(number), number), send)

    async def command(self, request: web.Request, action: str, draft: Draft) -> Outcome:
        """Send a command, and return its outcome as soon as a worker reports it. Raises Problem."""
        accepted = self._accepted(request, draft, 0)
        [outcome] = await self._actions.send(request[CALLER], action, [_sending(accepted)])
        assert isinstance(outcome, Outcome), "a single record that is not sent is raised"
        return outcome

    def _accepted(self, request: web.Request, draft: Draft, number: int) -> Accepted:
        """Return the accepted message of a draft, limited to the user's namespaces. Raises Problem."""
        caller, origin, acceptance = request[CALLER], request.get(ORIGIN), self._once
        if origin is None:
            origin, acceptance = self._receipts.origin(), self._acceptance
        if caller.namespaces is None:
            return acceptance.read(draft, caller, origin, number)
        headers = {name: (value or b"").decode(errors="replace") for name, value in draft.headers}
        namespaces, id_, bounds = self._topics.namespaces, headers.get(names.ID), self._actions.bounds
        full = full_id(caller, id_, namespaces) if id_ else namespaces.full(caller.namespace, "-")
        if id_:
            draft.headers = [(name, full.encode() if name == names.ID else value) for name, value in draft.headers]
        if headers.get(names.TO) and names.OP not in headers:
            draft.topic = bounds.input_for(caller, full, headers[names.TO], headers.get(names.TO_CLUSTER))
        within = msgspec.structs.replace(caller, namespaces=(namespaces.of_id(full),))
        accepted = acceptance.read(draft, within, origin, number)
        if accepted.asked.on_failure is not None:
            bounds.input_for(caller, full, accepted.asked.on_failure, None)
        return accepted


def _sending(accepted: Accepted) -> Sending:
    record = accepted.submission
    assert record.partition is not None, "acceptance sets the home partition"
    request = Request(record.key, record.value, tuple(record.headers), record.id.encode())
    return Sending(record.topic, record.partition, request, accepted.asked)


def _done(accepted: Accepted, outcome: Outcome | NotSent) -> Done | Problem:
    if isinstance(outcome, NotSent):
        return outcome
    return problem_of(outcome) or Done(accepted, outcome.source, outcome=outcome)
