"""The routes of actions on one message, destination or dead letter (POST with a JSON object), and of the audit."""

import uuid
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from app.serve.access.caller import CALLER, Caller
from app.serve.actions.actions import Actions, Actor, NotThere
from app.serve.actions.audit import Action, NotAudited, noted
from app.serve.actions.body import MESSAGE_FIELDS, BadBody, body_of, message_of, moment, raw, span, text
from app.serve.actions.commands import NotSent
from app.serve.actions.namespace_bounds import OutsideNamespaces
from app.serve.actions.outcome import PENDING, Outcome, problem_of
from app.serve.actions.resend import Correction
from app.serve.dead_letters.dead_letters import DeadLetters, Unreadable
from app.serve.dead_letters.routes import GONE, PLACE, own_one
from app.serve.search.filter import Filter
from app.serve.search.scans import ScanFailed
from app.serve.search.visibility import filter_shown, id_of
from app.serve.web import ids
from app.serve.web.answers import as_json
from app.serve.web.problem import RETRY_AFTER, Problem
from punctual.client.requests import Operation, Request, command
from punctual.contract.cron import doubt
from punctual.contract.request import Refusal

_Routes = TypeVar("_Routes")
Handler = Callable[[_Routes, web.Request], Coroutine[Any, Any, web.StreamResponse]]

_AUDIT_ROWS: Final = 200
_SENTENCE: Final = 1_000


def register(web_app: web.Application, actions: Actions, dead_letters: DeadLetters) -> None:
    """Add the routes to an application that has not started."""
    routes = ActionRoutes(actions, dead_letters)

    web_app.add_routes(
        [
            web.post("/api/v1/messages", routes.create),
            web.post(f"/api/v1/messages/{ids.PLACE}/cancel", routes.cancel),
            web.post(f"/api/v1/messages/{ids.PLACE}/reschedule", routes.reschedule),
            web.post(f"/api/v1/messages/{ids.PLACE}/deliver-now", routes.deliver_now),
            web.post(f"/api/v1/messages/{ids.PLACE}/pause", routes.pause_series),
            web.post(f"/api/v1/messages/{ids.PLACE}/resume", routes.resume_series),
            web.post("/api/v1/destinations/{to:.+}/pause", routes.pause),
            web.post("/api/v1/destinations/{to:.+}/resume", routes.resume),
            web.post("/api/v1/destinations/{to:.+}/rate", routes.rate),
            web.post(f"/api/v1/dead-letters/{PLACE}/resend", routes.resend),
            web.get("/api/v1/audit", routes.audit),
        ]
    )


def actor_of(request: web.Request) -> Actor:
    """Return the user of a request, whom the gate (app/serve/access) has checked."""
    caller = request[CALLER]
    return Actor(caller.name, caller.role, caller.bound)


def errors_answered(handler: Handler[_Routes]) -> Handler[_Routes]:
    """Return a handler whose errors become problems."""

    async def answer(routes: _Routes, request: web.Request) -> web.StreamResponse:
        try:
            return await handler(routes, request)
        except NotThere as error:
            raise Problem("unknown-destination", str(error)) from error
        except OutsideNamespaces as error:
            raise Problem("forbidden", str(error)) from error
        except Refusal as refusal:
            raise Problem(refusal.reason.value, refusal.sentence) from refusal
        except ValueError as error:
            raise Problem("invalid-parameter", shortened(str(error))) from error
        except ScanFailed as error:
            raise Problem("busy", str(error), headers=RETRY_AFTER) from error
        except (NotAudited, NotSent, Unreadable) as error:
            raise Problem("kafka-unavailable", str(error)) from error

    return answer


def shortened(sentence: str) -> str:
    """Return a sentence, shortened, because it may quote a body of up to 8 MiB."""
    return sentence if len(sentence) <= _SENTENCE else f"{sentence[:_SENTENCE]}…"


class ActionRoutes:
    """Reads actions from requests, and answers with their outcomes."""

    def __init__(self, actions: Actions, dead_letters: DeadLetters) -> None:
        """Execute actions with `actions`, and read dead letters with `dead_letters`."""
        self._actions, self._dead_letters = actions, dead_letters

    @errors_answered
    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages: schedule a message."""
        body, caller = await body_of(request, MESSAGE_FIELDS), request[CALLER]
        said = text(body, "id")
        if said == "":
            raise BadBody("id is empty. Use 1 to 256 bytes, or leave it out for an automatic ID")
        id_ = self._id(request, uuid.uuid4().hex if said is None else said)
        with warnings.catch_warnings(action="ignore"):  # the response has the warning
            message = message_of(body, id_)
        caller.check_size(len(message.key or b"") + len(message.value or b""))
        topic = self._actions.bounds.input_for(caller, id_, body.get("to"), text(body, "to_cluster"))
        asked = _recorded({**body, "id": id_} if "id" in body else body)
        outcome = await self._actions.send(actor_of(request), "create", message, asked, topic)
        schedule = text(body, "cron")
        return _answer(outcome if not schedule else msgspec.structs.replace(outcome, warning=doubt(schedule)))

    @errors_answered
    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/cancel: cancel a message."""
        return await self._command(request, "cancel")

    @errors_answered
    async def reschedule(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/reschedule: change the due time of a message."""
        body = await body_of(request, ("at", "after", "if_due"))
        at, after, if_due = moment(body, "at"), span(body, "after"), moment(body, "if_due")
        id_ = self._id(request, ids.id_in(request))
        reschedule = command("reschedule", id_, at=at, after=after, if_due=if_due)
        return await self._send(request, "reschedule", reschedule, body)

    @errors_answered
    async def deliver_now(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/deliver-now: make a message due now."""
        return await self._command(request, "deliver-now")

    @errors_answered
    async def pause_series(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/pause: pause a recurring message until it is resumed."""
        return await self._command(request, "pause")

    @errors_answered
    async def resume_series(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/resume: resume a recurring message with its next planned time."""
        return await self._command(request, "resume")

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

    def _id(self, request: web.Request, said: str) -> str:
        return id_of(said, self._dead_letters.namespaces, request[CALLER])

    async def _command(self, request: web.Request, action: Operation) -> web.Response:
        body = await body_of(request, ("if_due",))
        record = command(action, self._id(request, ids.id_in(request)), if_due=moment(body, "if_due"))
        return await self._send(request, action, record, body)

    async def _send(self, request: web.Request, action: str, record: Request, asked: dict[str, Any]) -> web.Response:
        return _answer(await self._actions.send(actor_of(request), action, record, _recorded(asked)))

    async def _control(
        self, request: web.Request, action: str, asked: dict[str, Any], changes: dict[str, Any]
    ) -> web.Response:
        to = request.match_info["to"]
        return _answer(await self._actions.control(actor_of(request), action, to, asked, **changes))


def _recorded(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a body for the audit, which does not keep the message itself."""
    return noted({name: said for name, said in asked.items() if name not in ("value", "headers", "key")})


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
