"""The pages of dead letters: search, correct, and send again, one dead letter or all that match."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from app.serve.console import flash, forms, payload
from app.serve.console.find import begin_job
from app.serve.console.forms import address, confirmed, for_input, moment_ms
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
        chosen = _chosen(request.query)
        query = {**chosen, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
        found = await self._pages.api(request).get("/dead-letters", query)
        return await self._pages.show(
            request,
            "dead-letters.html",
            found=found,
            chosen=chosen,
            shown={name: for_input(text) for name, text in chosen.items() if name.startswith("written_")},
            twin=address("/api/v1/dead-letters", chosen),
            status=200 if found.well else min(found.status, 503),
        )

    async def show_one(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters/{partition}-{offset} with the dead letter, and a form to correct it."""
        place = _place(request)
        found = await self._pages.api(request).get(f"/dead-letters/{place}")
        row: dict[str, Any] | None = found.body if found.well else None
        return await self._pages.show(
            request,
            "dead-letter.html",
            place=place,
            found=found,
            row=row,
            headers=_lines_of(row) if row else "",
            value=payload.of(row, request.query.get("view", "")) if row else None,
            text=_editable(row.get("value")) if row else None,
            plain=payload.plain,
            status=200 if row else found.status,
        )

    async def resend(self, request: web.Request) -> web.Response:
        """Answer POST /dead-letters/{partition}-{offset}/resend: send it again; unchanged parts stay byte for byte."""
        place = _place(request)
        given = await forms.form(request)
        found = await self._pages.api(request).get(f"/dead-letters/{place}")
        body: dict[str, Any] = {}
        if found.well and not found.get("masked"):
            was, said = _named(_lines_of(found.body)), _named(given.get("headers", ""))
            changed = {name: said.get(name) for name in was | said if said.get(name) != was.get(name)}
            if changed:
                body["headers"] = changed
            value = given.get("value", "").replace("\r\n", "\n")
            if "value" in given and value != (_editable(found.get("value")) or ""):
                body["value"] = value
        return await self._pages.post(request, f"/dead-letters/{place}/resend", body, f"/dead-letters/{place}")

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters/all with the number of matches, and a form that sends all again once it is typed."""
        chosen = _chosen(request.query)
        return await self._pages.show(
            request,
            "all.html",
            act="resend",
            labels={"resend": "Send again"},
            noun="dead letter",
            action="/dead-letters/all",
            count="/api/v1/dead-letters/count",
            chosen=chosen,
            counted=await self._pages.api(request).get("/dead-letters/count", chosen),
            back=address("/dead-letters", chosen),
        )

    async def begin(self, request: web.Request) -> web.Response:
        """Answer POST /dead-letters/all: start the job, and go to its page."""
        given = await forms.form(request)
        chosen = _chosen(given)
        again = address("/dead-letters/all", chosen)
        try:
            confirm = confirmed(given)
        except ValueError as error:
            return flash.see_other(again, well=False, sentence=str(error))
        return await begin_job(self._pages, request, {"act": "resend", "filter": chosen, "confirm": confirm}, again)


def _place(request: web.Request) -> str:
    return f"{request.match_info['partition']}-{request.match_info['offset']}"


def _chosen(given: Mapping[str, str]) -> dict[str, str]:
    """Return the filter in a query or form; invalid times are passed on, because the API reports them."""
    found = {name: given[name] for name in FILTER if given.get(name, "").strip()}
    for name in ("written_from", "written_to"):
        if name in found:
            try:
                found[name] = str(moment_ms(found[name]))
            except ValueError:
                continue
    return found


def _lines_of(row: Mapping[str, Any]) -> str:
    """Return the headers of the request, which may be corrected, as one line per header."""
    said = ((name, payload.plain(value)) for name, value in row["headers"] if name not in _ADDED)
    return "\n".join(legible(f"{name}: {value}") for name, value in said)


def _named(text: str) -> dict[str, str]:
    found = dict[str, str]()
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def _editable(shown: payload.Shown) -> str | None:
    """Return a value that a form can edit: text that a browser sends back unchanged; None if it is not."""
    if not isinstance(shown, str) or len(shown.encode()) > _EDITABLE_BYTES:
        return None
    return None if "\r" in shown or "\0" in shown else shown
