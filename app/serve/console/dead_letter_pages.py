"""The pages of dead letters: search, correct, and send again, one dead letter or all that match."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from app.serve.console import forms, payload
from app.serve.console.find import begin_job, count_page
from app.serve.console.forms import address
from app.serve.console.pages import PageGroup
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from punctual.cli.terminal import legible

_LIMIT: Final = "50"
#: A form with a larger value may exceed the worker's limit.
_EDITABLE_BYTES: Final = 256 * 1024
#: The headers that the worker has added to those of the request.
_ADDED: Final = ("delay-reason", "delay-error", "delay-source")


class DeadLetterPages(PageGroup):
    """Answers /dead-letters and the paths below."""

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters with the matches of a filter, the newest first."""
        criteria = forms.filter_of(request.query, DeadLetterFilter)
        query = {**criteria, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
        answer = await self._pages.api(request).get("/dead-letters", query)
        return await self._pages.show(
            request,
            "dead-letters.html",
            answer=answer,
            criteria=criteria,
            twin=address("/api/v1/dead-letters", criteria),
            status=200 if answer.ok else min(answer.status, 503),
        )

    async def show_one(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters/{partition}-{offset} with the dead letter, and a form to correct it."""
        place = _place(request)
        answer = await self._pages.api(request).get(f"/dead-letters/{place}")
        row: dict[str, Any] | None = answer.body if answer.ok else None
        return await self._pages.show(
            request,
            "dead-letter.html",
            place=place,
            answer=answer,
            row=row,
            headers=_lines_of(row) if row else "",
            value=payload.of(row, request.query.get("view", "")) if row else None,
            text=_editable(row.get("value")) if row else None,
            status=200 if row else answer.status,
        )

    @forms.handler
    async def resend(self, request: web.Request, fields: dict[str, str]) -> web.Response:
        """Answer POST /dead-letters/{partition}-{offset}/resend: send it again; unchanged parts stay byte for byte."""
        answer = await self._pages.api(request).get(f"/dead-letters/{_place(request)}")
        body: dict[str, Any] = {}
        if answer.ok and not answer.get("masked"):
            before, after = _headers_in(_lines_of(answer.body)), _headers_in(fields.get("headers", ""))
            changes = {name: after.get(name) for name in before | after if after.get(name) != before.get(name)}
            if changes:
                body["headers"] = changes
            value = fields.get("value", "").replace("\r\n", "\n")
            if "value" in fields and value != (_editable(answer.get("value")) or ""):
                body["value"] = value
        return await self._pages.post(request, body)

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters/all with the number of matches, and a form that sends all again once it is typed."""
        criteria, labels = forms.filter_of(request.query, DeadLetterFilter), {"resend": "Send again"}
        back = address("/dead-letters", criteria)
        return await count_page(self._pages, request, "dead letter", criteria, act="resend", labels=labels, back=back)

    @forms.handler
    async def begin(self, request: web.Request, fields: dict[str, str]) -> web.Response:
        """Answer POST /dead-letters/all: start the job, and go to its page."""
        return await begin_job(self._pages, request, fields, "resend", forms.filter_of(fields, DeadLetterFilter))


def _place(request: web.Request) -> str:
    return f"{request.match_info['partition']}-{request.match_info['offset']}"


def _lines_of(row: Mapping[str, Any]) -> str:
    """Return the headers of the request, which may be corrected, as one line per header."""
    headers = ((name, payload.plain(value)) for name, value in row["headers"] if name not in _ADDED)
    return "\n".join(legible(f"{name}: {value}") for name, value in headers)


def _headers_in(text: str) -> dict[str, str]:
    """Return the headers in lines, the first one of each name."""
    headers = dict[str, str]()
    for name, colon, value in (line.partition(":") for line in text.split("\n")):
        if colon:
            headers.setdefault(name.strip(), value.strip())
    return headers


def _editable(value: payload.ApiBytes) -> str | None:
    """Return a value that a form can edit: text that a browser sends back unchanged; None if it is not."""
    if not isinstance(value, str) or len(value.encode()) > _EDITABLE_BYTES:
        return None
    return None if "\r" in value or "\0" in value else value
