"""The form that schedules a message, and lines that schedule the same message from a shell or from Python."""

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.console import flash, forms
from app.serve.console.pages import Pages, names_of
from app.serve.web.ids import address
from punctual.contract.times import moment_of

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
            return await self._page(request, fields, **recipes(body, self._state.app_id, self._state.worker_url))
        answer = await self._pages.api(request).post("/messages", body)
        if not answer.ok:
            return await self._page(request, fields, answer.error)
        id_ = answer.get("id") or (answer.get("event") or {}).get("id") or fields.get("id", "")
        sentence = str(answer.get("sentence") or "Scheduled.")
        page = address("/messages", str(id_)) if id_ else "/new"
        return flash.see_other(page, success=True, sentence=sentence)

    async def _page(
        self, request: web.Request, fields: Mapping[str, str], error: str = "", **lines: str
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
            lines=lines,
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


def recipes(body: Mapping[str, Any], app_id: str, url: str) -> dict[str, str]:
    """Return the kcat, curl and Python line for a body of `POST /api/v1/messages`."""
    content = msgspec.json.encode(body).decode()
    curl = f"curl {shlex.quote(f'{url}/api/v1/messages')} --json {shlex.quote(content)}"
    return {"kcat": _kcat(body, app_id), "curl": curl, "Python": _python(body, app_id)}


def _stamp(at_ms: int) -> str:
    try:
        return moment_of(at_ms).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)


def _kcat(body: Mapping[str, Any], app_id: str) -> str:
    due = f"delay-after={body['after']}" if "after" in body else f"delay-at={_stamp(body['at'])}"
    headers = [f"delay-to={body['to']}", due]
    if body.get("id"):
        headers.append(f"delay-id={body['id']}")
    headers += [f"{name}={value}" for name, value in body.get("headers", {}).items()]
    key = ["-k", body["key"]] if body.get("key") else []
    options = [part for header in headers for part in ("-H", header)]
    words = ["kcat", "-P", "-b", "127.0.0.1:9092", "-t", f"{app_id}-requests", *key, *options]
    return f"printf '%s\\n' {shlex.quote(body.get('value') or '')} | {shlex.join(words)}"


def _python(body: Mapping[str, Any], app_id: str) -> str:
    arguments = [repr(body["to"]), repr(body.get("value") or "")]
    arguments += [f"{name}={body[name]!r}" for name in ("id", "key") if body.get(name)]
    if "after" in body:
        arguments.append(f"after=timedelta(milliseconds={body['after']})")
    else:
        arguments.append(f"at=datetime.fromisoformat({_stamp(body['at'])!r})")
    if body.get("headers"):
        arguments.append(f"headers={dict(body['headers'])!r}")
    option = "" if app_id == "delay" else f", app_id={app_id!r}"
    client = f"DelayClient('127.0.0.1:9092'{option})"
    return f"async with {client} as client:\n    await client.delay({', '.join(arguments)})"
