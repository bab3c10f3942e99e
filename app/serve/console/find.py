"""The pages that find messages: by a filter, one message, and actions on all matches."""

from typing import Any
from urllib.parse import quote

from aiohttp import web

from app.serve.console import flash, forms, payload
from app.serve.console.api import JsonAnswer
from app.serve.console.pages import Pages, names_of
from app.serve.web.ids import IN_QUERY, address, id_in

_LIMIT = "50"
ACTIONS = {"cancel": "Cancel", "reschedule": "Reschedule", "deliver-now": "Deliver now"}


class FindPages:
    """Answers /find and /find/all."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /find with the matches of a filter, or redirect to the message of an ID."""
        if request.query.get("id", "").strip():
            return _redirect(address("/messages", request.query["id"].strip()))
        try:
            criteria = forms.filter_of(request.query)
        except ValueError as error:
            return await self._page(request, JsonAnswer(400, {"detail": str(error)}), {})
        is_search = bool(criteria) or "all" in request.query
        answer = None
        if is_search:
            query = {**criteria, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
            answer = await self._pages.api(request).get("/messages", query)
        return await self._page(request, answer, criteria)

    async def _page(self, request: web.Request, answer: JsonAnswer | None, criteria: dict[str, str]) -> web.Response:
        overview = await self._pages.overview(request)
        return await self._pages.show(
            request,
            "find.html",
            overview=overview,
            answer=answer,
            rows=[] if answer is None else list(map(payload.row_of, answer.get("rows", []))),
            criteria=criteria,
            times={name: forms.for_input(text) for name, text in criteria.items() if name.startswith("due_")},
            names=names_of(overview),
            plain=payload.plain,
            twin=forms.address("/api/v1/messages", criteria),
            status=200 if answer is None or answer.ok else min(answer.status, 503),
        )

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /find/all with the number of matches, and a form that acts on all once that number is typed."""
        act = request.query.get("act", "cancel")
        try:
            criteria = forms.filter_of(request.query)
        except ValueError as error:
            return flash.see_other("/find", success=False, sentence=str(error))
        answer = await self._pages.api(request).get("/messages/count", criteria)
        return await self._pages.show(
            request,
            "all.html",
            act=act if act in ACTIONS else "cancel",
            labels=ACTIONS,
            noun="message",
            action="/find/all",
            count="/api/v1/messages/count",
            criteria=criteria,
            answer=answer,
            back=forms.address("/find", criteria or {"all": "1"}),
        )

    async def begin(self, request: web.Request) -> web.Response:
        """Answer POST /find/all: start the job, and go to its page."""
        fields = await forms.form(request)
        try:
            criteria = forms.filter_of(fields)
        except ValueError as error:
            return flash.see_other("/find", success=False, sentence=str(error))
        body: dict[str, Any] = {"act": fields.get("act", ""), "filter": criteria}
        form_page = forms.address("/find/all", {**criteria, "act": fields.get("act", "")})
        try:
            body["confirm"] = forms.confirmed_count(fields)
            if fields.get("act") == "reschedule":
                body |= forms.due(fields)
        except ValueError as error:
            return flash.see_other(form_page, success=False, sentence=str(error))
        return await begin_job(self._pages, request, body, form_page)


class MessagePages:
    """Answers /messages/{id} and the actions on one message."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

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
            plain=payload.plain,
            alone=answer.ok,  # a single message does not need the reports of all workers
            status=answer.status if not answer.ok and not answer.body.get("life") else 200,
        )

    async def act(self, request: web.Request) -> web.Response:
        """Answer POST /messages/{id}/{act}: wait for the outcome, and show it."""
        fields = await forms.form(request)
        id_, act = id_in(request), request.match_info["act"]
        page, action = address("/messages", id_), address("/messages", id_, f"/{act}")
        body: dict[str, Any] = {}
        try:
            if fields.get("if_due", "").isdigit():
                body["if_due"] = int(fields["if_due"])
            if act == "reschedule":
                body |= forms.due(fields)
        except ValueError as error:
            return flash.see_other(page, success=False, sentence=str(error))
        return await self._pages.post(request, action, body, page)


async def begin_job(pages: Pages, request: web.Request, body: dict[str, Any], form_page: str) -> web.Response:
    """Start a job and redirect to its page, or back to the form with the error if it has not started."""
    answer = await pages.api(request).post("/jobs", body)
    if not answer.ok:
        return flash.see_other(form_page, success=False, sentence=answer.error)
    id_ = str(answer.get("job", {}).get("job_id", ""))
    return flash.see_other(f"/jobs/{quote(id_, safe='')}", success=True, sentence="The job has started.")


def _redirect(address: str) -> web.Response:
    return web.Response(status=web.HTTPSeeOther.status_code, headers={"Location": address})
