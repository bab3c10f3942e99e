"""Fills the templates: the frame of every page, and the filters and functions that templates may use."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from aiohttp import web
from markupsafe import Markup, escape

from app.engine.steps.plan import PAUSED_MS
from app.serve.access.caller import ANYBODY, CALLER, enough
from app.serve.access.permissions import may
from app.serve.console import flash, wording
from app.serve.console.api import JsonAnswer
from app.serve.console.verdict import verdict
from app.serve.web.ids import address
from app.serve.web.problem import RETRY_AFTER
from punctual import durations
from punctual.cli.terminal import legible
from punctual.contract.destination import described

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


class Assets:
    """Serves the static files from memory, under URLs that change with their content, so that browsers can cache them.

    The disk is never read by a path from a request.
    """

    def __init__(self) -> None:
        folder = files("app.serve.console") / "static"
        self._content = {name: (folder / name).read_bytes() for name in _ASSETS}
        self.addresses = {name: f"/static/{name}?v={_digest(body)}" for name, body in self._content.items()}

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
        message=lambda id_, rest="": address("/messages", str(id_), rest),
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
        DASH=wording.DASH,
        PAUSED_MS=PAUSED_MS,
    )
    return templates


class Renderer:
    """Makes responses from templates; all values are escaped, control characters too.

    With the filter `block` line breaks and tabs of a text stay; with `exact`, all of a text that a form sends back.
    """

    def __init__(self, now_ms: Callable[[], int], *, read_only: bool) -> None:
        self._now_ms, self._read_only = now_ms, read_only
        self.assets = Assets()

    def page(
        self,
        request: web.Request,
        overview: JsonAnswer,
        name: str,
        *,
        live: bool = False,
        alone: bool = False,
        status: int = 200,
        **variables: Any,
    ) -> web.Response:
        """Return a page; without an overview, the page with the reason and the progress of the recovery.

        A page that can stand `alone` is shown even without an overview.
        """
        ready = overview.ok
        data: dict[str, Any] = overview.body if ready else {"at_ms": self._now_ms()}
        caller = request.get(CALLER, ANYBODY)
        frame = {
            "assets": self.assets.addresses,
            "overview": data,
            "verdict": verdict(data) if ready and not caller.bound else None,
            "now_ms": data.get("at_ms", 0),
            "path": request.path,
            "navigation": [(address, name) for address, name in NAVIGATION if may(caller, f"GET {address}")],
            "namespaces": caller.namespaces,
            "namespace_names": [row["namespace"] for row in data.get("namespaces", [])],
            "live": live or not (ready or alone),
            "user": "" if caller.name == ANYBODY.name else caller.name,
            "role": caller.role,
            "session": bool(caller.session),
            "operates": enough(caller.role, "operator") and not self._read_only,
            "administers": enough(caller.role, "admin") and not self._read_only,
            "flash": flash.read(request),
        }
        if not ready and not alone:
            recovering = {"reason": overview.error, "recovery": overview.body.get("recovery", [])}
            text = templates().get_template("recovering.html").render(frame | recovering)
            return web.Response(text=text, content_type="text/html", status=overview.status, headers=RETRY_AFTER)
        text = templates().get_template(name).render(frame | variables)
        return web.Response(text=text, content_type="text/html", status=status)


def _legible(value: object) -> object:
    """Return a value for a template: text without control characters or characters that reorder it."""
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _block(text: str) -> Markup:
    text = text.replace("\r\n", "\n")
    # One translation per distinct character, because a message may be a million empty lines.
    return escape(text.translate({ord(char): legible(char) for char in set(text) - {"\n", "\t"}}))


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()[:12]
