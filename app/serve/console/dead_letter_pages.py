"""The pages of dead letters: search, correct, and send again, one dead letter or all that match."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from app.serve.console import flash, forms, payload
from app.serve.console.find import begin_job
from app.serve.console.forms import address, confirmed_count, for_input, moment_ms
from app.serve.console.pages import Pages
from punctual.cli.terminal import legible

FILTER: Final = ("reason", "to", "id_prefix", "source", "written_from", "written_to", "sent_again", "namespace")
_LIMIT: Final = "50"
#: A form with a larger value may exceed the worker's limit.
_EDITABLE_BYTES: Final = 256 * 1024
#: The headers that the worker has added to those of the request.
_ADDED: Final = ("delay-reason", "delay-error", "delay-source")


class DeadLetterPages:
    """Answers /dead-letters and the paths below."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters with the matches of a filter, the newest first."""
        criteria = _filter_of(request.query)
        query = {**criteria, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
        answer = await self._pages.api(request).get("/dead-letters", query)
        return await self._pages.show(
            request,
            "dead-letters.html",
            answer=answer,
            criteria=criteria,
            times={name: for_input(text) for name, text in criteria.items() if name.startswith("written_")},
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
            plain=payload.plain,
            status=200 if row else answer.status,
        )

    async def resend(self, request: web.Request) -> web.Response:
        """Answer POST /dead-letters/{partition}-{offset}/resend: send it again; unchanged parts stay byte for byte."""
        place = _place(request)
        fields = await forms.form(request)
        answer = await self._pages.api(request).get(f"/dead-letters/{place}")
        body: dict[str, Any] = {}
        if answer.ok and not answer.get("masked"):
            before, after = _headers_in(_lines_of(answer.body)), _headers_in(fields.get("headers", ""))
            changes = {name: after.get(name) for name in before | after if after.get(name) != before.get(name)}
            if changes:
                body["headers"] = changes
            value = fields.get("value", "").replace("\r\n", "\n")
            if "value" in fields and value != (_editable(answer.get("value")) or ""):
                body["value"] = value
        return await self._pages.post(request, f"/dead-letters/{place}/resend", body, f"/dead-letters/{place}")

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters/all with the number of matches, and a form that sends all again once it is typed."""
        criteria = _filter_of(request.query)
        return await self._pages.show(
            request,
            "all.html",
            act="resend",
            labels={"resend": "Send again"},
            noun="dead letter",
            action="/dead-letters/all",
            count="/api/v1/dead-letters/count",
            criteria=criteria,
            answer=await self._pages.api(request).get("/dead-letters/count", criteria),
            back=address("/dead-letters", criteria),
        )

    async def begin(self, request: web.Request) -> web.Response:
        """Answer POST /dead-letters/all: start the job, and go to its page."""
        fields = await forms.form(request)
        criteria = _filter_of(fields)
        form_page = address("/dead-letters/all", criteria)
        try:
            confirm = confirmed_count(fields)
        except ValueError as error:
            return flash.see_other(form_page, success=False, sentence=str(error))
        return await begin_job(
            self._pages, request, {"act": "resend", "filter": criteria, "confirm": confirm}, form_page
        )


def _place(request: web.Request) -> str:
    return f"{request.match_info['partition']}-{request.match_info['offset']}"


def _filter_of(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the filter in a query or form; invalid times are passed on, because the API reports them."""
    criteria = {name: fields[name] for name in FILTER if fields.get(name, "").strip()}
    for name in ("written_from", "written_to"):
        if name in criteria:
            try:
                criteria[name] = str(moment_ms(criteria[name]))
            except ValueError:
                continue
    return criteria


def _lines_of(row: Mapping[str, Any]) -> str:
    """Return the headers of the request, which may be corrected, as one line per header."""
    headers = ((name, payload.plain(value)) for name, value in row["headers"] if name not in _ADDED)
    return "\n".join(legible(f"{name}: {value}") for name, value in headers)


def _headers_in(text: str) -> dict[str, str]:
    headers = dict[str, str]()
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip(), value.strip())
    return headers


def _editable(value: payload.ApiBytes) -> str | None:
    """Return a value that a form can edit: text that a browser sends back unchanged; None if it is not."""
    if not isinstance(value, str) or len(value.encode()) > _EDITABLE_BYTES:
        return None
    return None if "\r" in value or "\0" in value else value
