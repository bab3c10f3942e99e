"""The form that schedules a message, and lines that schedule the same message from a shell or from Python."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.console import flash, forms
from app.serve.console.pages import Pages, names_of
from app.serve.web.ids import address

_COPIED_FIELDS = ("to", "id", "key", "value")


class CreatePage:
    """Answers /new."""

    def __init__(self, pages: Pages, state: WorkerState) -> None:
        self._pages, self._state = pages, state

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /new with the form, filled in from the query."""
        return await self._page(request, dict(request.query))

    async def create(self, request: web.Request) -> web.Response:
        """Answer POST /new: schedule the message, or show the lines that schedule it."""
        fields = await forms.form(request)
        try:
            body = body_of(fields)
        except ValueError as error:
            return await self._page(request, fields, str(error))
        if fields.get("do") == "lines":
            return await self._page(request, fields, body=body)
        answer = await self._pages.api(request).post("/messages", body)
        if not answer.ok:
            return await self._page(request, fields, answer.error)
        id_ = answer.get("id") or (answer.get("event") or {}).get("id") or fields.get("id", "")
        sentence = str(answer.get("sentence") or "Scheduled.")
        page = address("/messages", str(id_)) if id_ else "/new"
        return flash.see_other(page, success=True, sentence=sentence)

    async def _page(
        self, request: web.Request, fields: Mapping[str, str], error: str = "", body: dict[str, Any] | None = None
    ) -> web.Response:
        overview = await self._pages.overview(request)
        return await self._pages.show(
            request,
            "new.html",
            overview=overview,
            fields={"unit": "minutes", "when": "after", "count": "5", **fields},
            units=list(forms.UNITS_MS),
            names=[name for name in names_of(overview) if "://" not in name],
            error=error,
            body=body,
            app_id=self._state.app_id,
            worker_url=self._state.worker_url,
            status=400 if error else 200,
        )


def body_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of `POST /api/v1/messages` for the fields of a form. Raises ValueError with a sentence."""
    if not fields.get("to", "").strip():
        raise ValueError("the destination is missing. Enter a topic or a URL")
    body: dict[str, Any] = {name: fields[name] for name in _COPIED_FIELDS if fields.get(name)}
    body["to"] = body["to"].strip()
    headers = {}
    for line in fields.get("headers", "").split("\n"):
        name, colon, value = line.partition(":")
        if line.strip() and not colon:
            raise ValueError(f"the header {line.strip()!r} has no colon. Write one header per line, as name: value")
        if colon:
            headers[name.strip()] = value.strip()
    if headers:
        body["headers"] = headers
    return body | forms.due(fields)
