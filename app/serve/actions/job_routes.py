"""The routes of jobs: actions on all messages or dead letters that match a filter."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from aiohttp import web

from app.base.clock import Clock
from app.serve.access.caller import CALLER, Caller
from app.serve.actions.job import RESEND, JobAction, JobStatus
from app.serve.actions.jobs import Jobs
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.messages import json_input
from app.serve.messages.short_form import Span, moment, span_ms
from app.serve.search.filter import Filter
from app.serve.search.search import LOCAL
from app.serve.search.visibility import filter_of, filter_shown, sees
from app.serve.web.answers import as_json
from app.serve.web.problem import Problem, checked
from punctual.contract.destination import shown
from punctual.contract.namespaces import Namespaces


def register(web_app: web.Application, jobs: Jobs, namespaces: Namespaces) -> None:
    """Add the routes to an application that has not started; jobs are done while it runs."""
    routes = JobRoutes(jobs, namespaces)

    async def run(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(jobs.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    web_app.cleanup_ctx.append(run)
    router = web_app.router
    router.add_post("/api/v1/jobs", routes.start)
    router.add_get("/api/v1/jobs", routes.all)
    router.add_get("/api/v1/jobs/{id}", routes.one)
    router.add_post("/api/v1/jobs/{id}/stop", routes.stop)
    router.add_get(f"{LOCAL}/jobs", routes.wake)


class JobRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An action on all messages that match a filter, at most `confirm` of them; `at` or `after` for a reschedule."""

    act: JobAction
    confirm: Annotated[int, msgspec.Meta(ge=1)]
    filter: dict[str, str | int] | None = None
    at: Span = None
    after: Span = None


class JobList(msgspec.Struct, kw_only=True):
    """Jobs, the newest first."""

    jobs: list[JobStatus]


class JobRoutes:
    """Starts and stops jobs, and answers with their states."""

    def __init__(self, jobs: Jobs, namespaces: Namespaces) -> None:
        self._jobs, self._namespaces = jobs, namespaces

    @checked
    async def start(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/jobs: start an action on all messages that match a filter."""
        body, caller = await json_input.read(request, JobRequest), request[CALLER]
        kind: type[Filter | DeadLetterFilter] = DeadLetterFilter if body.act == RESEND else Filter
        query = {name: str(value) for name, value in (body.filter or {}).items()}
        if query.keys() - set(kind.names):
            raise Problem("invalid-parameter", f"filter must be an object with some of {', '.join(kind.names)}")
        at, after_ms = moment("at", body.at), span_ms("after", body.after)
        if (body.act == "reschedule") != (at is not None or after_ms is not None):
            raise Problem("invalid-parameter", "a reschedule needs at or after; other actions do not accept them")
        due_ms = None if at is None else round(at.timestamp() * 1_000)
        if after_ms is not None:
            due_ms = Clock.wall_ms() + after_ms
            moment("after", due_ms)  # there are no years beyond 9999
        wanted = filter_of(kind, query, self._namespaces, caller)
        return as_json(await self._jobs.start(caller, body.act, wanted, body.confirm, due_ms), 202)

    @checked
    async def all(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/jobs with the states of all jobs, the newest first."""
        jobs, caller = await self._jobs.all(), request[CALLER]
        return as_json(JobList(jobs=[job_shown(one, caller) for one in jobs if sees(caller, one.job.namespaces)]))

    @checked
    async def one(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/jobs/{id} with the state of the job."""
        return as_json(job_shown(await self._job(request), request[CALLER]))

    @checked
    async def stop(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /api/v1/jobs/{id}/stop: stop the job; its changes stay."""
        job = (await self._job(request)).job
        return as_json(job_shown(await self._jobs.stop(request[CALLER], job), request[CALLER]))

    async def wake(self, _request: web.Request) -> web.StreamResponse:
        """Answer another worker that has started a job: look for new jobs."""
        self._jobs.wake()
        return as_json({"partitions": []})

    async def _job(self, request: web.Request) -> JobStatus:
        """Return the state of a job. Raises Problem if there is none that the user may see."""
        status = await self._jobs.one(request.match_info["id"])
        if status is None or not sees(request[CALLER], status.job.namespaces):
            raise Problem("unknown-job", "there is no such job. Jobs are kept for 30 days")
        return status


def job_shown(status: JobStatus, caller: Caller) -> JobStatus:
    """Return the state of a job without the parts about messages that the user may not see."""
    job, letters = status.job, status.job.dead_letters
    if letters is not None:
        letters = msgspec.structs.replace(letters, to=shown(letters.to))
    job = msgspec.structs.replace(job, filter=filter_shown(job.filter, caller), dead_letters=letters)
    if not caller.bound:
        return msgspec.structs.replace(status, job=job)
    parts = [msgspec.structs.replace(part, after="") for part in status.parts]
    return msgspec.structs.replace(status, job=msgspec.structs.replace(job, ends=[]), parts=parts)
