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
            return _see(address("/messages", request.query["id"].strip()))
        try:
            chosen = forms.filter_of(request.query)
        except ValueError as error:
            return await self._page(request, JsonAnswer(400, {"detail": str(error)}), {})
        asked = bool(chosen) or "all" in request.query
        found = None
        if asked:
            query = {**chosen, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
            found = await self._pages.api(request).get("/messages", query)
        return await self._page(request, found, chosen)

    async def _page(self, request: web.Request, found: JsonAnswer | None, chosen: dict[str, str]) -> web.Response:
        overview = await self._pages.overview(request)
        return await self._pages.show(
            request,
            "find.html",
            overview=overview,
            found=found,
            rows=[] if found is None else list(map(payload.row_of, found.get("rows", []))),
            chosen=chosen,
            shown={name: forms.for_input(text) for name, text in chosen.items() if name.startswith("due_")},
            names=names_of(overview),
            plain=payload.plain,
            twin=forms.address("/api/v1/messages", chosen),
            status=200 if found is None or found.well else min(found.status, 503),
        )

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /find/all with the number of matches, and a form that acts on all once that number is typed."""
        act = request.query.get("act", "cancel")
        try:
            chosen = forms.filter_of(request.query)
        except ValueError as error:
            return flash.see_other("/find", well=False, sentence=str(error))
        counted = await self._pages.api(request).get("/messages/count", chosen)
        return await self._pages.show(
            request,
            "all.html",
            act=act if act in ACTIONS else "cancel",
            labels=ACTIONS,
            noun="message",
            action="/find/all",
            count="/api/v1/messages/count",
            chosen=chosen,
            counted=counted,
            back=forms.address("/find", chosen or {"all": "1"}),
        )

    async def begin(self, request: web.Request) -> web.Response:
        """Answer POST /find/all: start the job, and go to its page."""
        given = await forms.form(request)
        try:
            chosen = forms.filter_of(given)
        except ValueError as error:
            return flash.see_other("/find", well=False, sentence=str(error))
        body: dict[str, Any] = {"act": given.get("act", ""), "filter": chosen}
        again = forms.address("/find/all", {**chosen, "act": given.get("act", "")})
        try:
            body["confirm"] = forms.confirmed(given)
            if given.get("act") == "reschedule":
                body |= forms.due(given)
        except ValueError as error:
            return flash.see_other(again, well=False, sentence=str(error))
        return await begin_job(self._pages, request, body, again)


class MessagePages:
    """Answers /messages/{id} and the actions on one message."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /messages/{id} with the message and its history."""
        id_ = id_in(request)
        found = await self._pages.api(request).get(f"/messages/{IN_QUERY}", {"id": id_, "life": "1"})
        row = payload.row_of(found.body) if found.well and "due_ms" in found.body else None
        return await self._pages.show(
            request,
            "message.html",
            id=id_,
            found=found,
            row=row,
            life=found.body.get("life", []),
            looked_back_to_ms=found.body.get("looked_back_to_ms"),
            value=payload.of(row, request.query.get("view", "")) if row else None,
            plain=payload.plain,
            alone=found.well,  # a single message does not need the reports of all workers
            status=found.status if not found.well and not found.body.get("life") else 200,
        )

    async def act(self, request: web.Request) -> web.Response:
        """Answer POST /messages/{id}/{act}: wait for the outcome, and show it."""
        given = await forms.form(request)
        id_, act = id_in(request), request.match_info["act"]
        page, asked = address("/messages", id_), address("/messages", id_, f"/{act}")
        body: dict[str, Any] = {}
        try:
            if given.get("if_due", "").isdigit():
                body["if_due"] = int(given["if_due"])
            if act == "reschedule":
                body |= forms.due(given)
        except ValueError as error:
            return flash.see_other(page, well=False, sentence=str(error))
        return await self._pages.post(request, asked, body, page)


async def begin_job(pages: Pages, request: web.Request, body: dict[str, Any], again: str) -> web.Response:
    """Start a job and redirect to its page, or back to the form with the error if it has not started."""
    answer = await pages.api(request).post("/jobs", body)
    if not answer.well:
        return flash.see_other(again, well=False, sentence=answer.error)
    id_ = str(answer.get("job", {}).get("job_id", ""))
    return flash.see_other(f"/jobs/{quote(id_, safe='')}", well=True, sentence="The job has started.")


def _see(address: str) -> web.Response:
    return web.Response(status=web.HTTPSeeOther.status_code, headers={"Location": address})
