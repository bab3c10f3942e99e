"""The routes of actions on one message, destination or dead letter (POST with a JSON object), and of the audit."""

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from app.serve.access.caller import CALLER, Caller
from app.serve.actions.actions import Actions
from app.serve.actions.answering import actor_of, errors_as_problems
from app.serve.actions.audit import Action, noted
from app.serve.actions.body import BadBody, body_of, moment, raw, text
from app.serve.actions.resend import Correction
from app.serve.dead_letters.dead_letters import DeadLetters
from app.serve.dead_letters.routes import GONE, PLACE, own_one
from app.serve.messages.outcome import PENDING, Outcome, problem_of
from app.serve.search.filter import Filter
from app.serve.search.visibility import filter_shown
from app.serve.web.answers import as_json
from app.serve.web.problem import Problem

_Routes = TypeVar("_Routes")
Handler = Callable[[_Routes, web.Request], Coroutine[Any, Any, web.StreamResponse]]

_AUDIT_ROWS: Final = 200


def register(web_app: web.Application, actions: Actions, dead_letters: DeadLetters) -> None:
    """Add the routes to an application that has not started."""
    routes = ActionRoutes(actions, dead_letters)

    web_app.add_routes(
        [
            web.post("/api/v1/destinations/{to:.+}/pause", routes.pause),
            web.post("/api/v1/destinations/{to:.+}/resume", routes.resume),
            web.post("/api/v1/destinations/{to:.+}/rate", routes.rate),
            web.post(f"/api/v1/dead-letters/{PLACE}/resend", routes.resend),
            web.get("/api/v1/audit", routes.audit),
        ]
    )


def errors_answered(handler: Handler[_Routes]) -> Handler[_Routes]:
    """Return a handler whose errors become problems."""

    async def answer(routes: _Routes, request: web.Request) -> web.StreamResponse:
        with errors_as_problems():
            return await handler(routes, request)

    return answer


class ActionRoutes:
    """Reads actions from requests, and answers with their outcomes."""

    def __init__(self, actions: Actions, dead_letters: DeadLetters) -> None:
        """Execute actions with `actions`, and read dead letters with `dead_letters`."""
        self._actions, self._dead_letters = actions, dead_letters

    @errors_answered
    async def pause(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/pause: pause a destination."""
        body = await body_of(request, ("reason", "until"))
        changes = {"paused": True, "reason": text(body, "reason"), "until": moment(body, "until")}
        return await self._control(request, "pause", body, changes)

    @errors_answered
    async def resume(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/resume: resume a destination."""
        body = await body_of(request, ())
        return await self._control(request, "resume", body, {"paused": False, "reason": None, "until": None})

    @errors_answered
    async def rate(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/rate: set a rate limit; `none` for no limit, null for the default."""
        body = await body_of(request, ("rate",))
        return await self._control(request, "rate", body, {"rate": text(body, "rate")})

    @errors_answered
    async def resend(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/dead-letters/{partition}-{offset}/resend: send a dead letter again, corrected or not."""
        body = await body_of(request, ("headers", "value"))
        partition, offset = (int(request.match_info[name]) for name in ("partition", "offset"))
        one = await own_one(self._dead_letters, partition, offset, request[CALLER])
        if one is None:
            raise Problem("unknown-dead-letter", GONE)
        headers = body.get("headers") or {}
        if not isinstance(headers, dict):
            raise BadBody("headers must be an object of names and values; null removes a header")
        changes = {name: raw(headers, name) for name in headers}
        correction = Correction(changes, replaces="value" in body, value=raw(body, "value"))
        return _answer(await self._actions.resend(request[CALLER], one, correction))

    @errors_answered
    async def audit(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/audit with the newest actions."""
        caller = request[CALLER]
        actions = await self._actions.last(_AUDIT_ROWS, caller.namespaces)
        return as_json({"acts": [action_shown(action, caller) for action in actions]})

    async def _control(
        self, request: web.Request, action: str, asked: dict[str, Any], changes: dict[str, Any]
    ) -> web.Response:
        to = request.match_info["to"]
        return _answer(await self._actions.control(actor_of(request), action, to, asked, **changes))


def _answer(outcome: Outcome) -> web.Response:
    problem = problem_of(outcome)
    if problem is not None:
        raise problem
    return as_json(outcome, web.HTTPAccepted.status_code if outcome.outcome == PENDING else web.HTTPOk.status_code)


def action_shown(action: Action, caller: Caller) -> Action:
    """Return an action with the details that `caller` may see."""
    action = msgspec.structs.replace(action, asked=noted(action.asked))
    asked = action.asked.get("filter")
    if not isinstance(asked, dict):
        return action
    wanted = filter_shown(Filter(key=asked.get("key", ""), header=asked.get("header", "")), caller)
    masked = {name: getattr(wanted, name) for name in ("key", "header") if name in asked}
    return msgspec.structs.replace(action, asked={**action.asked, "filter": noted({**asked, **masked})})
