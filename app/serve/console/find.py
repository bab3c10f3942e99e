"""The pages that find messages: by a filter, one message, and jobs that act on all matches."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import web

from app.serve.access.sign_in import redirect
from app.serve.console import flash, forms, payload
from app.serve.console.pages import PageGroup, Pages, names_of
from app.serve.search.filter import Filter
from app.serve.web.ids import IN_QUERY, address, id_in

_LIMIT = "50"
ACTIONS = {"cancel": "Cancel", "reschedule": "Reschedule", "deliver-now": "Deliver now"}


class FindPages(PageGroup):
    """Answers /find and /find/all."""

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /find with the matches of a filter, or redirect to the message of an ID."""
        if request.query.get("id", "").strip():
            return redirect(address("/messages", request.query["id"].strip()))
        answer, criteria = None, forms.filter_of(request.query, Filter)
        if criteria or "all" in request.query:
            query = {**criteria, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
            answer = await self._pages.api(request).get("/messages", query)
        overview = await self._pages.overview(request)
        return await self._pages.show(
            request,
            "find.html",
            overview=overview,
            answer=answer,
            criteria=criteria,
            names=names_of(overview),
            twin=forms.address("/api/v1/messages", criteria),
            status=200 if answer is None or answer.ok else min(answer.status, 503),
        )

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /find/all with the number of matches, and a form that acts on all once that number is typed."""
        act, criteria = request.query.get("act", ""), forms.filter_of(request.query, Filter)
        act, back = act if act in ACTIONS else "cancel", forms.address("/find", criteria or {"all": "1"})
        return await count_page(self._pages, request, "message", criteria, act=act, labels=ACTIONS, back=back)

    @forms.handler
    async def begin(self, request: web.Request, fields: dict[str, str]) -> web.Response:
        """Answer POST /find/all: start the job, and go to its page."""
        return await begin_job(self._pages, request, fields, fields.get("act", ""), forms.filter_of(fields, Filter))


class MessagePages(PageGroup):
    """Answers /messages/{id} and the actions on one message."""

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /messages/{id} with the message and its history."""
        id_ = id_in(request)
        answer = await self._pages.api(request).get(f"/messages/{IN_QUERY}", {"id": id_, "life": "1"})
        row = payload.row_of(answer.body) if answer.ok and "due_ms" in answer.body else None
        return await self._pages.show(
            request,
            "message.html",
            id=id_,
            answer=answer,
            row=row,
            life=answer.body.get("life", []),
            looked_back_to_ms=answer.body.get("looked_back_to_ms"),
            value=payload.of(row, request.query.get("view", "")) if row else None,
            alone=answer.ok,  # a single message does not need the reports of all workers
            status=answer.status if not answer.ok and not answer.body.get("life") else 200,
        )

    @forms.handler
    async def act(self, request: web.Request, fields: dict[str, str]) -> web.Response:
        """Answer POST /messages/{id}/{act}: wait for the outcome, and show it."""
        body: dict[str, Any] = {}
        if fields.get("if_due", "").isdigit():
            body["if_due"] = int(fields["if_due"])
        if request.match_info["act"] == "reschedule":
            body |= forms.due(fields)
        return await self._pages.post(request, body)


class JobPages(PageGroup):
    """Answers /jobs/{id}, and stops jobs."""

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /jobs/{id} with the progress of a job and the outcomes of its messages."""
        id_ = request.match_info["id"]
        answer = await self._pages.api(request).get(f"/jobs/{quote(id_, safe='')}")
        running = answer.get("state") == "running"
        return await self._pages.show(request, "job.html", live=running, id=id_, answer=answer, status=answer.status)

    @forms.handler
    async def stop(self, request: web.Request, _fields: dict[str, str]) -> web.Response:
        """Answer POST /jobs/{id}/stop: stop the job."""
        success = "The job is stopping. Messages that it has already changed stay changed."
        return await self._pages.post(request, {}, success)


async def count_page(
    pages: Pages, request: web.Request, noun: str, criteria: dict[str, str], **variables: Any
) -> web.Response:
    """Return the page with the number of matches, and the form that acts on all of them."""
    path = f"/{noun.replace(' ', '-')}s/count"
    answer, count = await pages.api(request).get(path, criteria), f"/api/v1{path}"
    return await pages.show(request, "all.html", noun=noun, count=count, criteria=criteria, answer=answer, **variables)


async def begin_job(
    pages: Pages, request: web.Request, fields: Mapping[str, str], act: str, criteria: dict[str, str]
) -> web.Response:
    """Start a job and redirect to its page, or back to the form with the error if it has not started."""
    form_page = forms.address(request.path, {**criteria, "act": act})
    try:
        body = {"act": act, "filter": criteria, "confirm": forms.confirmed_count(fields)}
        if act == "reschedule":
            body |= forms.due(fields)
    except ValueError as error:
        return flash.see_other(form_page, success=False, sentence=str(error))
    answer = await pages.api(request).post("/jobs", body)
    if not answer.ok:
        return flash.see_other(form_page, success=False, sentence=answer.error)
    id_ = str(answer.get("job", {}).get("job_id", ""))
    return flash.see_other(f"/jobs/{quote(id_, safe='')}", success=True, sentence="The job has started.")
