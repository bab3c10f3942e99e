"""The pages of dead letters: searched, put right, and sent again."""

from base64 import b64decode, b64encode
from typing import Any, Final

from aiohttp import web

from app.console import payload
from app.console.desk import Desk
from app.console.forms import address, moment_ms

FILTER: Final = ("reason", "to", "id_prefix", "from", "to_ms")
_LIMIT: Final = "50"


class Letters:
    """Answers /dead-letters and what lies below."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters: the newest first."""
        chosen = _chosen(request.query)
        query = {**chosen, "limit": _LIMIT, "cursor": request.query.get("cursor", "")}
        found = await self._desk.api(request).get("/dead-letters", query)
        return await self._desk.show(
            request, "letters.html", found=found, chosen=chosen, twin=address("/api/v1/dead-letters", chosen)
        )

    async def show_one(self, request: web.Request) -> web.Response:
        """Answer GET /dead-letters/{partition}-{offset}: one, and the form that puts it right."""
        place = f"{request.match_info['partition']}-{request.match_info['offset']}"
        row = await self._one(request, place)
        headers = _user_headers(row) if row else []
        return await self._desk.show(
            request,
            "letter.html",
            place=place,
            row=row,
            headers="\n".join(f"{name}: {payload.plain(value)}" for name, value in headers),
            value=payload.payload(row.get("value"), request.query.get("view", "")) if row else None,
            text=_editable(row.get("value")) if row else None,
            plain=payload.plain,
            status=200 if row else 404,
        )

    async def _one(self, request: web.Request, place: str) -> dict[str, Any] | None:
        partition, _, offset = place.partition("-")
        found = await self._desk.api(request).get(
            "/dead-letters", {"partition": partition, "offset": offset, "limit": "1"}
        )
        rows = found.get("rows", [])
        return next((row for row in rows if (str(row["partition"]), str(row["offset"])) == (partition, offset)), None)

    async def resend(self, request: web.Request) -> web.Response:
        """Answer POST /dead-letters/{partition}-{offset}/resend."""
        place = f"{request.match_info['partition']}-{request.match_info['offset']}"
        given = await self._desk.form(request)
        row = await self._one(request, place)
        body: dict[str, Any] = {}
        if row is not None:
            was = {name: payload.plain(value) for name, value in _user_headers(row)}
            said = _lines(given.get("headers", ""))
            changed = {name: value for name, value in said.items() if was.get(name) != value}
            if changed:
                body["headers"] = changed
            value = given.get("value", "").replace("\r\n", "\n")
            if "value" in given and value != _editable(row.get("value")):
                body["value"] = value
        done = "Sent again. It is a message like any other from here on."
        return await self._desk.act(request, f"/dead-letters/{place}/resend", body, f"/dead-letters/{place}", done)


def _chosen(given: Any) -> dict[str, str]:
    found = {name: given[name].strip() for name in FILTER if given.get(name, "").strip()}
    for name in ("from", "to_ms"):
        if name in found:
            try:
                found[name] = str(moment_ms(found[name]))
            except ValueError:
                del found[name]
    return found


def _user_headers(row: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the headers that may be put right: those of the request, without what the worker has added."""
    added = ("delay-reason", "delay-error", "delay-source", "delay-due", "delay-original-headers")
    return [(name, value) for name, value in row["headers"] if name not in added]


def _editable(encoded: str | None) -> str | None:
    """Return a value that can be put right in a form: text that stays the same when it is only sent."""
    if encoded is None:
        return None
    try:
        text = b64decode(encoded).decode()
    except UnicodeDecodeError:
        return None
    return text if b64encode(text.replace("\r\n", "\n").encode()).decode() == encoded else None


def _lines(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found
