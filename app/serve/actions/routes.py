"""The routes of actions on one message, destination or dead letter (POST with a JSON object), and of the audit."""

from typing import Any, Final

import msgspec
from aiohttp import web

from app.serve.access.caller import CALLER, Caller
from app.serve.actions.actions import Actions
from app.serve.actions.audit import Action, noted, noted_filter
from app.serve.actions.resend import Correction
from app.serve.dead_letters.dead_letters import DeadLetters
from app.serve.dead_letters.routes import PLACE, own_one
from app.serve.messages import json_input
from app.serve.messages.outcome import PENDING, Outcome, problem_of
from app.serve.messages.short_form import Content, Span, moment, octets
from app.serve.web.answers import as_json
from app.serve.web.problem import checked

_AUDIT_ROWS: Final = 200


class DestinationPauseRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why a destination is paused, and until when (RFC 3339 or epoch ms)."""

    reason: str | None = None
    until: Span = None


class RateRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A rate limit such as `20/s burst 100`, `none`, or null for the settings' limit."""

    rate: str | None = None


class CorrectionRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """New values of headers, null to remove one, and a new value of the message."""

    headers: dict[str, Content] | None = None
    value: Content | msgspec.UnsetType = msgspec.UNSET


class ActionList(msgspec.Struct, kw_only=True):
    """The newest actions."""

    acts: list[Action]


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No field."""


def register(web_app: web.Application, actions: Actions, dead_letters: DeadLetters) -> None:
    """Add the routes to an application that has not started."""
    routes = ActionRoutes(actions, dead_letters)

    router = web_app.router
    router.add_post("/api/v1/destinations/{to:.+}/pause", routes.pause)
    router.add_post("/api/v1/destinations/{to:.+}/resume", routes.resume)
    router.add_post("/api/v1/destinations/{to:.+}/rate", routes.rate)
    router.add_post(f"/api/v1/dead-letters/{PLACE}/resend", routes.resend)
    router.add_get("/api/v1/audit", routes.audit)


class ActionRoutes:
    """Reads actions from requests, and answers with their outcomes."""

    def __init__(self, actions: Actions, dead_letters: DeadLetters) -> None:
        self._actions, self._dead_letters = actions, dead_letters

    @checked
    async def pause(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/pause: pause a destination."""
        body = await json_input.read(request, DestinationPauseRequest)
        changes = {"paused": True, "reason": body.reason, "until": moment("until", body.until)}
        return await self._control(request, "pause", body, changes)

    @checked
    async def resume(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/resume: resume a destination."""
        body = await json_input.read(request, _Nothing)
        return await self._control(request, "resume", body, {"paused": False, "reason": None, "until": None})

    @checked
    async def rate(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/rate: set a rate limit; `none` for no limit, null for the default."""
        body = await json_input.read(request, RateRequest)
        return await self._control(request, "rate", body, {"rate": body.rate})

    @checked
    async def resend(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/dead-letters/{partition}-{offset}/resend: send a dead letter again, corrected or not."""
        body = await json_input.read(request, CorrectionRequest)
        json_input.check_headers(body.headers or ())
        one = await own_one(self._dead_letters, request)
        changes = {name: octets(value) for name, value in (body.headers or {}).items()}
        value = None if isinstance(body.value, msgspec.UnsetType) else octets(body.value)
        correction = Correction(changes, replaces=body.value is not msgspec.UNSET, value=value)
        return _answer(await self._actions.resend(request[CALLER], one, correction))

    @checked
    async def audit(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/audit with the newest actions."""
        caller = request[CALLER]
        actions = await self._actions.audit.last(_AUDIT_ROWS, caller)
        return as_json(ActionList(acts=[action_shown(action, caller) for action in actions]))

    async def _control(
        self, request: web.Request, action: str, body: msgspec.Struct, changes: dict[str, Any]
    ) -> web.Response:
        asked = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        outcome = await self._actions.control(request[CALLER], action, request.match_info["to"], asked, **changes)
        return _answer(outcome)


def _answer(outcome: Outcome) -> web.Response:
    problem = problem_of(outcome)
    if problem is not None:
        raise problem
    return as_json(outcome, web.HTTPAccepted.status_code if outcome.outcome == PENDING else web.HTTPOk.status_code)


def action_shown(action: Action, caller: Caller) -> Action:
    """Return an action with the details that `caller` may see."""
    asked = noted(action.asked)
    if isinstance(asked.get("filter"), dict):
        asked["filter"] = noted_filter(asked["filter"]) if caller.masked else noted(asked["filter"])
    return msgspec.structs.replace(action, asked=asked)
