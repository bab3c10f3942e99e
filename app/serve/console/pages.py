"""Shared by all pages: the API with the permissions of the user, the templates, and the frame of every page."""

import re
import shlex
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from markupsafe import Markup, escape

from app.engine.steps.plan import PAUSED_MS
from app.serve.access.caller import caller_of, enough
from app.serve.access.permissions import may
from app.serve.console import flash, forms, payload, wording
from app.serve.console.api import ConsoleApi, JsonAnswer
from app.serve.console.verdict import verdict
from app.serve.search.pending import written
from app.serve.web.ids import address
from app.serve.web.problem import RETRY_AFTER
from punctual import durations
from punctual.cli.terminal import legible
from punctual.contract.destination import described

#: The maximum destinations that a form suggests.
_MAX_NAMES: Final = 200
_WILD: Final = re.compile(r"[*?\[]")
_CONTENT_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_ASSETS: Final = ("page.css", "page.js", "clock.svg")
#: The pages in their order: path, name.
NAVIGATION: Final[tuple[tuple[str, str], ...]] = (
    ("/", "Home"),
    ("/destinations", "Destinations"),
    ("/find", "Find"),
    ("/dead-letters", "Dead letters"),
    ("/recurring", "Recurring"),
    ("/workers", "Workers"),
    ("/jobs", "Jobs"),
    ("/audit", "Audit"),
)


class Pages:
    """Makes the responses of pages: each page calls the API, and shows its responses.

    All values are escaped, control characters too. With the filter `block` line breaks and tabs of a text stay; with
    `exact`, all of a text that a form sends back.
    """

    def __init__(self, web_app: web.Application, now_ms: Callable[[], int], *, read_only: bool) -> None:
        self._web_app, self._now_ms, self._read_only = web_app, now_ms, read_only
        self.assets = Assets()

    def api(self, request: web.Request) -> ConsoleApi:
        """Return the API with the permissions of the request's user."""
        return ConsoleApi(self._web_app, request)

    async def overview(self, request: web.Request) -> JsonAnswer:
        """Return the data around a page's content: of the installation, or of the namespaces of a bound user."""
        return await self.api(request).get("/namespaces" if caller_of(request).bound else "/overview")

    async def show(
        self,
        request: web.Request,
        name: str,
        *,
        overview: JsonAnswer | None = None,
        live: bool = False,
        alone: bool = False,
        status: int = 200,
        **variables: Any,
    ) -> web.Response:
        """Return a page of a template, with an `overview` if one has already been read.

        Without one, it is the page with the reason and the progress of the recovery. A page that can stand `alone` is
        shown even then.
        """
        if overview is None:
            overview = await self.overview(request)
        headers = {}
        if not overview.ok and not alone:
            name, live, status, headers = "recovering.html", True, overview.status, RETRY_AFTER
            variables = {"reason": overview.error, "recovery": overview.body.get("recovery", [])}
        text = templates().get_template(name).render(self._frame(request, overview) | {"live": live} | variables)
        return web.Response(text=text, content_type="text/html", status=status, headers=headers)

    def _frame(self, request: web.Request, overview: JsonAnswer) -> dict[str, Any]:
        data: dict[str, Any] = overview.body if overview.ok else {"at_ms": self._now_ms()}
        caller = caller_of(request)
        return {
            "assets": self.assets.addresses,
            "overview": data,
            "verdict": verdict(data) if overview.ok and not caller.bound else None,
            "now_ms": data.get("at_ms", 0),
            "path": request.path,
            "navigation": [(path, name) for path, name in NAVIGATION if may(caller, f"GET {path}")],
            "namespaces": caller.namespaces,
            "namespace_names": [row["namespace"] for row in data.get("namespaces", [])],
            "user": caller.login,
            "role": caller.role,
            "session": bool(caller.session),
            "operates": enough(caller.role, "operator") and not self._read_only,
            "administers": enough(caller.role, "admin") and not self._read_only,
            "flash": flash.read(request),
        }

    def of(self, name: str, path: str, *parameters: str, live: bool = False, **query: str) -> Handler:
        """Return a handler that shows the response of the API at `path` with a template.

        The API gets `query`, and those of `parameters` that are in the page's query.
        """

        async def show(request: web.Request) -> web.Response:
            chosen = {parameter: request.query.get(parameter, "") for parameter in parameters}
            answer = await self.api(request).get(path, query | chosen)
            return await self.show(request, name, live=live, answer=answer)

        return show

    async def post(self, request: web.Request, body: dict[str, Any], success: str = "") -> web.Response:
        """Send a form's request to the API, which has the same path, and redirect to its page, with the outcome."""
        answer = await self.api(request).post(request.rel_url.raw_path_qs, body)
        sentence = answer.get("sentence") or answer.get("outcome") or success
        page = forms.page_of(request)
        return flash.see_other(page, success=answer.ok, sentence=answer.error or str(sentence) or "Done.")


class PageGroup:
    """Handlers of pages; each subclass has those of some paths."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages


def names_of(overview: JsonAnswer) -> list[str]:
    """Return destinations to suggest: those with messages, or the allowed names of a bound user's namespaces."""
    names = [row["destination"] for row in overview.get("destinations", [])]
    for namespace in overview.get("namespaces", []):
        names += [name for name in namespace.get("destinations", []) if not _WILD.search(name)]
    return list(dict.fromkeys(names))[:_MAX_NAMES]


class Assets:
    """Serves the static files from memory, under URLs that change with their content, so that browsers can cache them.

    The disk is never read by a path from a request.
    """

    def __init__(self) -> None:
        folder = files("app.serve.console") / "static"
        self._content = {name: (folder / name).read_bytes() for name in _ASSETS}
        digests = {name: sha256(body).hexdigest()[:12] for name, body in self._content.items()}
        self.addresses = {name: f"/static/{name}?v={digest}" for name, digest in digests.items()}

    async def serve(self, request: web.Request) -> web.Response:
        """Answer GET /static/{name} with the file."""
        name = request.match_info["name"]
        if name not in self._content:
            raise web.HTTPNotFound
        return web.Response(
            body=self._content[name],
            content_type=_CONTENT_TYPES[name.rpartition(".")[2]],
            charset="utf-8",
            headers={"Cache-Control": "public, max-age=86400"},
        )


@cache
def templates() -> jinja2.Environment:
    """Return the templates, with the filters and globals that they use; each is compiled once in a process."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("app.serve.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_legible,
        auto_reload=False,  # files that an upgrade replaces are for the next start, not for this process
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        number=wording.number,
        measure=wording.measure,
        counted=wording.counted,
        duration=durations.duration,
        moment=durations.moment,
        iso=wording.iso,
        schedule=wording.schedule,
        partitions=wording.partitions,
        size=wording.size,
        field=wording.field,
        described=described,
        row=payload.row_of,
        for_input=forms.for_input,
        message=lambda id_, rest="": address("/messages", str(id_), rest),
        json=lambda body: msgspec.json.encode(body).decode(),
        repr=repr,
        rfc3339=lambda at_ms: written(at_ms) or str(at_ms),
        shell=shlex.quote,
        exact=escape,
        block=_block,
        segment=lambda text: quote(str(text), safe=""),
        query=lambda fields: urlencode({name: value for name, value in fields.items() if value not in ("", None)}),
    )
    templates.globals.update(
        relative=durations.relative,
        local=wording.local,
        clock=wording.clock,
        next_due=wording.next_due,
        percentile=wording.percentile,
        plain=payload.plain,
        DASH=wording.DASH,
        PAUSED_MS=PAUSED_MS,
    )
    return templates


def _legible(value: object) -> object:
    """Return a value for a template: text without control characters or characters that reorder it."""
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _block(text: str) -> Markup:
    text = text.replace("\r\n", "\n")
    # One translation per distinct character, because a message may be a million empty lines.
    return escape(text.translate({ord(char): legible(char) for char in set(text) - {"\n", "\t"}}))
