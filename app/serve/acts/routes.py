"""The addresses at which people and programs act on messages and destinations, all by POST with a JSON object."""

import asyncio
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.clock import Clock
from app.serve.access.roles import ASKER, Asker
from app.serve.acts.acts import Actor, Acts
from app.serve.acts.audit import NotAudited, noted
from app.serve.acts.body import BadBody, body_of, moment, raw, span, text
from app.serve.acts.bounds import Outside
from app.serve.acts.existing import NotThere
from app.serve.acts.job import ACTS, RESEND, Standing
from app.serve.acts.jobs import Jobs
from app.serve.acts.orders import NotGiven
from app.serve.acts.outcome import PENDING, Outcome
from app.serve.acts.resend import Correction
from app.serve.acts.shown import act_shown, is_theirs, job_shown
from app.serve.dead_letters.dead_letters import DeadLetters, Unreadable
from app.serve.dead_letters.filter import NAMES as OF_DEAD_LETTERS
from app.serve.dead_letters.routes import GONE, PLACE, own_one
from app.serve.dead_letters.routes import filter_of as dead_letter_filter_of
from app.serve.search.filter import NAMES
from app.serve.search.scans import ScanFailed
from app.serve.search.search import LOCAL
from app.serve.search.visibility import filter_of, id_of
from app.serve.web import ids
from app.serve.web.answers import as_json
from punctual.client.requests import Operation, Request, command, schedule
from punctual.contract.cron import doubt

Handler = Callable[["View", web.Request], Coroutine[Any, Any, web.StreamResponse]]

_CONTENT: Final = ("to", "value", "key", "headers", "id", "at", "after", "max_late", "if_late", "to_cluster",
                   "to_partition", "every", "cron", "zone", "until", "count", "misfire")  # fmt: skip
_ACTS_SHOWN: Final = 200
_SENTENCE: Final = 1_000
#: Outcomes of which a program that only looks at the status should not think that all is well.
_STATUS: Final = {PENDING: 202, "unknown": 404, "conflict": 409, "stale": 409, "refused": 422}


def register(web_app: web.Application, acts: Acts, jobs: Jobs, dead_letters: DeadLetters) -> None:
    """Add the addresses to an application that has not started yet; jobs are done as long as it runs."""
    view = View(acts, jobs, dead_letters)

    async def run(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(jobs.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    web_app.cleanup_ctx.append(run)
    web_app.add_routes(
        [
            web.post("/api/v1/messages", view.create),
            web.post(f"/api/v1/messages/{ids.PLACE}/cancel", view.cancel),
            web.post(f"/api/v1/messages/{ids.PLACE}/reschedule", view.reschedule),
            web.post(f"/api/v1/messages/{ids.PLACE}/deliver-now", view.deliver_now),
            web.post(f"/api/v1/messages/{ids.PLACE}/pause", view.pause_series),
            web.post(f"/api/v1/messages/{ids.PLACE}/resume", view.resume_series),
            web.post("/api/v1/destinations/{to:.+}/pause", view.pause),
            web.post("/api/v1/destinations/{to:.+}/resume", view.resume),
            web.post("/api/v1/destinations/{to:.+}/rate", view.rate),
            web.post(f"/api/v1/dead-letters/{PLACE}/resend", view.resend),
            web.get("/api/v1/audit", view.audit),
            web.post("/api/v1/jobs", view.give_job),
            web.get("/api/v1/jobs", view.jobs),
            web.get("/api/v1/jobs/{id}", view.job),
            web.post("/api/v1/jobs/{id}/stop", view.stop_job),
            web.get(f"{LOCAL}/jobs", view.wake),
        ]
    )


def actor_of(request: web.Request) -> Actor:
    """Return who asks, as the gate has found (app/serve/access): nobody acts without having passed it."""
    asker = request[ASKER]
    return Actor(asker.name, asker.role, asker.bound)


def told(handler: Handler) -> Handler:
    """Answer what a handler cannot do with a sentence."""

    async def answer(view: "View", request: web.Request) -> web.StreamResponse:
        try:
            return await handler(view, request)
        except NotThere as error:
            return as_json({"error": str(error)}, 404)
        except Outside as error:
            return as_json({"error": str(error)}, 403)
        except ValueError as error:
            return as_json({"error": shortened(str(error))}, 400)
        except (NotAudited, NotGiven, ScanFailed, Unreadable) as error:
            return as_json({"error": str(error)}, 503)

    return answer


def shortened(sentence: str) -> str:
    """Return a sentence that may quote a body, which has up to 8 MiB."""
    return sentence if len(sentence) <= _SENTENCE else f"{sentence[:_SENTENCE]}…"


class View:
    """Reads acts from requests, and answers with what came of them."""

    def __init__(self, acts: Acts, jobs: Jobs, dead_letters: DeadLetters) -> None:
        """Act by these."""
        self._acts, self._jobs, self._dead_letters = acts, jobs, dead_letters

    @told
    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages: ask for a message to be delivered."""
        body, asker = await body_of(request, _CONTENT), request[ASKER]
        said = text(body, "id")
        if said == "":
            raise BadBody("id is empty. Use 1 to 256 bytes, or leave it out for an automatic ID")
        id_ = self._id(request, uuid.uuid4().hex if said is None else said)
        with warnings.catch_warnings(action="ignore"):  # the answer has it
            order = message_of(body, id_)
        topic = self._acts.bounds.input_for(asker, id_, body.get("to"), text(body, "to_cluster"))
        asked = _recorded({**body, "id": id_} if "id" in body else body)
        outcome = await self._acts.order(actor_of(request), "create", order, asked, topic)
        schedule = text(body, "cron")
        return _answer(outcome if not schedule else msgspec.structs.replace(outcome, warning=doubt(schedule)))

    @told
    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/cancel."""
        return await self._command(request, "cancel")

    @told
    async def reschedule(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/reschedule: another due time."""
        body = await body_of(request, ("at", "after", "if_due"))
        at, after, if_due = moment(body, "at"), span(body, "after"), moment(body, "if_due")
        id_ = self._id(request, ids.id_in(request))
        order = command("reschedule", id_, at=at, after=after, if_due=if_due)
        return await self._order(request, "reschedule", order, body)

    @told
    async def deliver_now(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/deliver-now."""
        return await self._command(request, "deliver-now")

    @told
    async def pause_series(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/pause: a recurring message waits until it is resumed."""
        return await self._command(request, "pause")

    @told
    async def resume_series(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/messages/{id}/resume: it goes on with the next time that is planned."""
        return await self._command(request, "resume")

    @told
    async def pause(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/pause."""
        body = await body_of(request, ("reason", "until"))
        changes = {"paused": True, "reason": text(body, "reason"), "until": moment(body, "until")}
        return await self._control(request, "pause", body, changes)

    @told
    async def resume(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/resume."""
        body = await body_of(request, ())
        return await self._control(request, "resume", body, {"paused": False, "reason": None, "until": None})

    @told
    async def rate(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/destinations/{to}/rate: a cap, `none` for none, null for that of the settings."""
        body = await body_of(request, ("rate",))
        return await self._control(request, "rate", body, {"rate": text(body, "rate")})

    @told
    async def resend(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/dead-letters/{partition}-{offset}/resend: send one again, put right perhaps."""
        body = await body_of(request, ("headers", "value"))
        partition, offset = (int(request.match_info[name]) for name in ("partition", "offset"))
        one = await own_one(self._dead_letters, partition, offset, request[ASKER])
        if one is None:
            return as_json({"error": GONE}, 404)
        headers = body.get("headers") or {}
        if not isinstance(headers, dict):
            raise BadBody("headers must be an object of names and values; null removes a header")
        changes = {name: raw(headers, name) for name in headers}
        correction = Correction(changes, replaces="value" in body, value=raw(body, "value"))
        return _answer(await self._acts.resend(request[ASKER], one, correction))

    @told
    async def audit(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/audit: the newest acts."""
        asker = request[ASKER]
        acts = await self._acts.last(_ACTS_SHOWN, asker.namespaces)
        return as_json({"acts": [act_shown(act, asker) for act in acts]})

    @told
    async def give_job(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/jobs: act on all that match a filter."""
        body = await body_of(request, ("act", "filter", "confirm", "at", "after"))
        act, confirm, given = body.get("act"), body.get("confirm"), body.get("filter") or {}
        if act not in (*ACTS, RESEND):
            raise BadBody(f"act must be one of {', '.join((*ACTS, RESEND))}")
        if not isinstance(confirm, int) or isinstance(confirm, bool) or confirm < 1:
            raise BadBody("confirm must be the maximum number of messages that the job may change")
        names = OF_DEAD_LETTERS if act == RESEND else NAMES
        if not isinstance(given, dict) or set(given) - set(names):
            raise BadBody(f"filter must be an object with some of {', '.join(names)}")
        query = {name: str(said) for name, said in given.items()}
        at, after = moment(body, "at"), span(body, "after")
        if (act == "reschedule") != (at is not None or after is not None):
            raise BadBody("a reschedule needs at or after; other actions do not accept them")
        if act == RESEND:
            wanted = dead_letter_filter_of(query, self._dead_letters.namespaces, request[ASKER])
            return as_json(await self._jobs.resend(actor_of(request), wanted, confirm), 202)
        due_ms = None if at is None else round(at.timestamp() * 1_000)
        if after is not None:
            due_ms = Clock.wall_ms() + after // timedelta(milliseconds=1)
            moment({"after": due_ms}, "after")  # there are no years beyond 9999
        pending = filter_of(query, self._dead_letters.namespaces, request[ASKER])
        return as_json(await self._jobs.give(actor_of(request), act, pending, confirm, due_ms), 202)

    @told
    async def jobs(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/jobs: how all of them stand, the newest first."""
        found, asker = await self._jobs.all(), request[ASKER]
        return as_json({"jobs": [job_shown(one, asker) for one in found if is_theirs(one.job, asker)]})

    @told
    async def job(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/jobs/{id}."""
        return _found(await self._job(request), request[ASKER])

    @told
    async def stop_job(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/jobs/{id}/stop: it goes no further; what it has done stays."""
        if await self._job(request) is None:
            return _found(None, request[ASKER])
        return _found(await self._jobs.stop(actor_of(request), request.match_info["id"]), request[ASKER])

    async def wake(self, _request: web.Request) -> web.StreamResponse:
        """Answer another worker that has given a job."""
        self._jobs.wake()
        return as_json({"partitions": []})

    async def _job(self, request: web.Request) -> Standing | None:
        """Return how a job stands; None if there is none of theirs."""
        found = await self._jobs.one(request.match_info["id"])
        return found if found is not None and is_theirs(found.job, request[ASKER]) else None

    def _id(self, request: web.Request, said: str) -> str:
        return id_of(said, self._dead_letters.namespaces, request[ASKER])

    async def _command(self, request: web.Request, act: Operation) -> web.Response:
        body = await body_of(request, ("if_due",))
        order = command(act, self._id(request, ids.id_in(request)), if_due=moment(body, "if_due"))
        return await self._order(request, act, order, body)

    async def _order(self, request: web.Request, act: str, order: Request, asked: dict[str, Any]) -> web.Response:
        return _answer(await self._acts.order(actor_of(request), act, order, _recorded(asked)))

    async def _control(
        self, request: web.Request, act: str, asked: dict[str, Any], changes: dict[str, Any]
    ) -> web.Response:
        to = request.match_info["to"]
        return _answer(await self._acts.control(actor_of(request), act, to, asked, **changes))


def message_of(body: dict[str, Any], id_: str) -> Request:
    """Return the request for the message that an object describes, under an id.

    Raises BadBody, or InvalidRequestError.
    """
    headers = body.get("headers") or {}
    if not isinstance(headers, dict):
        raise BadBody("headers must be an object of names and values")
    return schedule(
        body.get("to"),
        raw(body, "value"),
        at=moment(body, "at"),
        after=span(body, "after"),
        key=raw(body, "key"),
        headers=[(name, raw(headers, name)) for name in headers],
        id=id_,
        to_partition=body.get("to_partition"),
        to_cluster=text(body, "to_cluster"),
        max_late=span(body, "max_late"),
        if_late=text(body, "if_late"),  # type: ignore[arg-type] # what it may be is checked there
        every=span(body, "every"),
        cron=text(body, "cron"),
        zone=text(body, "zone"),
        until=moment(body, "until"),
        count=body.get("count"),
        misfire=text(body, "misfire"),
    )


def _recorded(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the audit keeps of a body: all but the message itself."""
    return noted({name: said for name, said in asked.items() if name not in ("value", "headers", "key")})


def _answer(outcome: Outcome) -> web.Response:
    return as_json(outcome, _STATUS.get(outcome.outcome, 200))


def _found(standing: Standing | None, asker: Asker) -> web.Response:
    if standing is None:
        return as_json({"error": "there is no such job. Jobs are kept for 30 days"}, 404)
    return as_json(job_shown(standing, asker))
